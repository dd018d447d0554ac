-- Tables of history, in the SQL that SQLite and PostgreSQL share. Times are ms since the epoch. JSON columns hold core
-- types as msgspec encodes them. The key of a job is its id and its creation time: a later job may have the same id.
CREATE TABLE IF NOT EXISTS windlass_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);

CREATE TABLE IF NOT EXISTS windlass_jobs (      -- ended jobs
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
  spec        TEXT NOT NULL,                    -- core.model.job.Job
  status      TEXT NOT NULL,                    -- core.model.status.Status
  PRIMARY KEY (id, created_at)
);
CREATE INDEX IF NOT EXISTS windlass_jobs_by_end ON windlass_jobs (finished_at);
CREATE INDEX IF NOT EXISTS windlass_jobs_by_object ON windlass_jobs (object);
CREATE INDEX IF NOT EXISTS windlass_jobs_by_name ON windlass_jobs (name);

CREATE TABLE IF NOT EXISTS windlass_transitions (
  number      BIGINT NOT NULL,                  -- grows with time; followers resume after a number
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

CREATE TABLE IF NOT EXISTS windlass_members (   -- one row for each pod and generation
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
  log         TEXT,                             -- last lines of the log
  missing     TEXT NOT NULL,                    -- reason why there are none
  PRIMARY KEY (job_id, created_at, generation, member)
);
