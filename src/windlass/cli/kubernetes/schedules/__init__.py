"""Schedules of a cluster, read and changed with the user's own permissions.

- `schedule_creation`: creates the schedules of a command line, all or none
- `cron_training_jobs`: CronTrainingJobs, which the operator of Windlass carries out
- `cron_jobs`: CronJobs of Kubernetes, for a cluster that does not serve CronTrainingJobs
"""
