-- History, in what SQLite and PostgreSQL share. Times are ms since the epoch; JSON columns hold core types as msgspec
-- writes them. A job is known by its id and the moment it was created: another one may bear the same id later.
CREATE TABLE IF NOT EXISTS windlass_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);

CREATE TABLE IF NOT EXISTS windlass_jobs (      -- those that have ended
  id          TEXT NOT NULL,
  created_at  BIGINT NOT NULL,
  number      BIGINT NOT NULL,
  object      TEXT NOT NULL,                    -- the last part of the id
  name        TEXT NOT NULL,
  username    TEXT NOT NULL,
  queue       TEXT NOT NULL,
  phase       TEXT NOT NULL,
  reason      TEXT NOT NULL,
  finished_at BIGINT NOT NULL,
  spec        TEXT NOT NULL,                    -- core.job.Job
  status      TEXT NOT NULL,                    -- core.status.Status
  PRIMARY KEY (id, created_at)
);
CREATE INDEX IF NOT EXISTS windlass_jobs_by_end ON windlass_jobs (finished_at);
CREATE INDEX IF NOT EXISTS windlass_jobs_by_object ON windlass_jobs (object);
CREATE INDEX IF NOT EXISTS windlass_jobs_by_name ON windlass_jobs (name);

CREATE TABLE IF NOT EXISTS windlass_transitions (
  number      BIGINT NOT NULL,                  -- grows with time: what a follower has seen is named by it
  job_id      TEXT NOT NULL,
  created_at  BIGINT NOT NULL,
  told_at     BIGINT NOT NULL,
  event       TEXT NOT NULL,
  was         TEXT NOT NULL,
  became      TEXT NOT NULL,
  message     TEXT NOT NULL,
  PRIMARY KEY (number, job_id)
);
CREATE INDEX IF NOT EXISTS windlass_transitions_by_job ON windlass_transitions (job_id, created_at);

CREATE TABLE IF NOT EXISTS windlass_members (   -- a row a pod and generation
  job_id      TEXT NOT NULL,
  created_at  BIGINT NOT NULL,
  generation  BIGINT NOT NULL,
  member      BIGINT NOT NULL,
  role        TEXT NOT NULL,
  replica     BIGINT NOT NULL,
  node        TEXT NOT NULL,
  pod         TEXT NOT NULL,
  code        BIGINT,
  signal      BIGINT,
  detail      TEXT NOT NULL,
  log         TEXT,                             -- its last lines
  missing     TEXT NOT NULL,                    -- why there are none
  PRIMARY KEY (job_id, created_at, generation, member)
);
