-- A placement names a node for each member and changes rarely, the status changes often: each has a row of its own.
CREATE TABLE placements (
  job_id TEXT PRIMARY KEY,
  fields TEXT NOT NULL                -- JSON object of the fields `placement` and `resize_to` of core.status.Status
);
INSERT INTO placements (job_id, fields)
  SELECT id, json_patch('{}', json_object(
    'placement', json_extract(status, '$.placement'), 'resize_to', json_extract(status, '$.resize_to')))
  FROM jobs
  WHERE json_extract(status, '$.placement') IS NOT NULL OR json_extract(status, '$.resize_to') IS NOT NULL;
UPDATE jobs SET status = json_remove(status, '$.placement', '$.resize_to')
  WHERE id IN (SELECT job_id FROM placements);
