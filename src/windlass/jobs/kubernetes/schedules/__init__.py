"""Schedules of TrainingJobs as objects of the kind CronTrainingJob. Pure; `now` is an argument.

`cron_fields` is the table of the fields, `cron_training_job` reads an object and makes its runs, `schedule_state` is
the durable state in its status, and `run_plan` applies `jobs.schedules.due_runs` to the object and its runs.
"""
