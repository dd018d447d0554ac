"""The kinds of training jobs, a module each: reading the manifest, and the pods and objects made of it.

- `registry`: a row for each kind; the only module that others need
- `pytorchjob`, `tfjob`, `xgboostjob`, `paddlejob`, `jaxjob`, `mpijob_v1`, `mpijob_v2` (with `mpijob_parts`), `trainjob`
  (with `trainjob_runtime`, `trainjob_pods`, `trainjob_steps`, `trainjob_initializer` and `trainjob_claims`):
  Kubeflow's kinds; `trainingjob`: our own
- parts that kinds share: `replica_specs`, `run_policy`, `member_policy`, `parsed_gang`, `services`, `pod_group`,
  `plain_fields`, `newer_version_fields`

Templates of pods are filled in by `jobs.kubernetes.pods`, the status of an object by `jobs.kubernetes.status`.
"""
