"""Plugins for other programs, which load them: each submits and follows jobs by `windlass.Client`.

- `torchx_scheduler`: the scheduler `windlass` of TorchX
- `gang_step`: a job as a step of a pipeline, for `kfp_component` and `airflow_operator`
"""
