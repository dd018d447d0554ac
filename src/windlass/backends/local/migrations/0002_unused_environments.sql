-- An environment is removed with the last job that has it: the index finds the other jobs of one environment.
CREATE INDEX jobs_by_environment ON jobs (environment) WHERE environment IS NOT NULL;
DELETE FROM environments WHERE number NOT IN (SELECT environment FROM jobs WHERE environment IS NOT NULL);
