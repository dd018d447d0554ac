CREATE TABLE schedules (
  name   TEXT PRIMARY KEY,
  record TEXT NOT NULL                -- backends.local.schedule_records.ScheduleRecord
) WITHOUT ROWID;
