-- The state of the local backend. Times are ms since the epoch. JSON columns hold core types as msgspec writes them.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE jobs (
  row         INTEGER PRIMARY KEY,
  id          TEXT NOT NULL UNIQUE,
  number      INTEGER NOT NULL,      -- order of submission
  name        TEXT NOT NULL,
  array_id    TEXT,
  user        TEXT NOT NULL,
  queue       TEXT NOT NULL,
  phase       TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  finished_at INTEGER,
  kept_until  INTEGER,               -- end of a finished job's ttl
  spec        TEXT NOT NULL,         -- core.job.Job
  status      TEXT NOT NULL,         -- core.status.Status
  environment INTEGER REFERENCES environments (number),
  owner       TEXT                   -- "pid:start ticks:boot id" of the client that the job must not outlive
);
CREATE INDEX jobs_by_name ON jobs (name, number);
CREATE INDEX jobs_by_array ON jobs (array_id, number) WHERE array_id IS NOT NULL;
CREATE INDEX jobs_by_user ON jobs (user, number);
CREATE INDEX jobs_by_number ON jobs (number);
CREATE INDEX jobs_alive ON jobs (number) WHERE finished_at IS NULL;
CREATE INDEX jobs_kept ON jobs (number) WHERE kept_until IS NOT NULL;
CREATE INDEX jobs_by_end ON jobs (finished_at);

CREATE TABLE environments (           -- of clients, each once
  number INTEGER PRIMARY KEY,
  text   TEXT NOT NULL UNIQUE
);

CREATE TABLE transitions (
  number  INTEGER PRIMARY KEY AUTOINCREMENT,   -- what a listener has seen is named by it: never given twice
  job_id  TEXT NOT NULL,
  at      INTEGER NOT NULL,
  event   TEXT NOT NULL,
  before  TEXT NOT NULL,
  after   TEXT NOT NULL,
  message TEXT NOT NULL
);
CREATE INDEX transitions_by_job ON transitions (job_id, number);

CREATE TABLE tasks (                  -- one row a rank and generation
  job_id     TEXT NOT NULL,
  generation INTEGER NOT NULL,
  rank       INTEGER NOT NULL,
  role       TEXT NOT NULL,
  replica    INTEGER NOT NULL,
  node       TEXT NOT NULL,
  devices    TEXT NOT NULL,           -- JSON list of the replica's device ids
  pid        INTEGER,                 -- null: not started yet
  started    INTEGER,                 -- clock ticks since boot
  code       INTEGER,
  signal     INTEGER,
  detail     TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (job_id, generation, rank)
) WITHOUT ROWID;

CREATE TABLE verdicts (job_id TEXT PRIMARY KEY, at INTEGER NOT NULL, verdict TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE outbox (job_id TEXT PRIMARY KEY) WITHOUT ROWID;   -- jobs whose logs are still to be removed
