"""The operator's process: leader election, one HTTP port for probes, metrics and the API, and the history of jobs.

Belongs here: the process (`process`), a replica's leadership terms (`replica`, `election`), its HTTP port (`endpoints`,
`app`), the answers of a cluster to the API (`cluster_data_source`, `cluster_job_records`, `pod_tasks`, `members`,
`job_names`), its metrics (`metrics`), and history that outlives the jobs' objects (`history`).
Does not belong here: decisions (core), objects and pods (backends.kubernetes), what is installed (deploy).

Nothing in here may delay or stop the controller: history and logs are written and read beside its loop.
"""
