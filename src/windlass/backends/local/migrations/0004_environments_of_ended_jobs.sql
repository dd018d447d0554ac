-- An ended job keeps nothing of its client's environment but the place of its checkpoints.
INSERT OR IGNORE INTO environments (text)
    SELECT json_object('WINDLASS_CHECKPOINTS', json_extract(text, '$.WINDLASS_CHECKPOINTS'))
    FROM jobs JOIN environments ON environments.number = jobs.environment
    WHERE finished_at IS NOT NULL AND json_extract(text, '$.WINDLASS_CHECKPOINTS') IS NOT NULL;
UPDATE jobs SET environment = (
    SELECT kept.number FROM environments AS whole JOIN environments AS kept
    ON kept.text = json_object('WINDLASS_CHECKPOINTS', json_extract(whole.text, '$.WINDLASS_CHECKPOINTS'))
    WHERE whole.number = jobs.environment)
    WHERE finished_at IS NOT NULL AND environment IS NOT NULL;
DELETE FROM environments WHERE number NOT IN (SELECT environment FROM jobs WHERE environment IS NOT NULL);
