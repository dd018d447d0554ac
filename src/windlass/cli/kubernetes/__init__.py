"""A Kubernetes cluster behind the calls of `server.client.Client`, answered by the operator and by objects.

Belongs here: finding the operator; creating, following and changing jobs with the user's own permissions; logs of pods
and commands inside them. Does not belong here: HTTP requests (`backends.kubernetes.client`), the objects of a job
(`jobs.kubernetes`), and what a verb prints (`cli.verbs`).

- `client`: `ClusterClient`, the class that verbs call, with the queries of `job_queries` and `operator_queries`
- `api_session`: blocking calls of the API server; `operator_client`: the API of the leading operator
- `job_names`, `job_finder`, `job_objects`: from a name to its objects, and the state stored in them
- `submission`, `training_jobs`, `code_folder`, `object_creation`, `submit_warnings`: from a command line to objects
- `run`, `allocation`: the verbs run, submit and alloc; `job_events`, `pod_logs`, `job_logs`: following jobs
- `schedules`: CronTrainingJobs, and CronJobs where a cluster lacks that kind
- `job_actions`, `reservations`: cancel, suspend, resume, reserve; `pod_ranks`, `pod_exec`: pods as ranks
"""
