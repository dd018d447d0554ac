"""Jobs in queues of Kueue: Kueue admits and preempts them, and Windlass places their gangs.

- `workload_object`: the Workload of a job, which Kueue queues; `workload_state`: its admission, as Kueue writes it
- `kueue_jobs`: the Workloads of a cluster, kept as the jobs need them

A job is in such a queue by the label kueue.x-k8s.io/queue-name of a TrainingJob. Kueue's own integrations hold jobs of
other kinds by their field suspend. Workloads of other clusters (MultiKueue) are left alone.
"""
