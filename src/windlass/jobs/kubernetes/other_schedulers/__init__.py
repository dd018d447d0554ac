"""Manifests that run a job's gang with a scheduler of others, without the operator of Windlass.

- `portable_gang`: the roles of a job as pod templates that are equal for all replicas; `indexed_template` makes one
- `batch_jobs`: indexed Jobs, with PodGroups (coscheduling, Kubernetes' own gangs) or for Kueue
- `job_set`: one JobSet, alone or for Kueue; `volcano_job`: one Job of Volcano
- `cron_job`: a schedule as a CronJob, whose gangs the operator of Windlass places
- `lost_fields`: fields of the job without a counterpart; `rendered_manifests`: the entry point

Does not belong here: PodGroups of jobs that the operator runs (`kinds.pod_group`).
"""
