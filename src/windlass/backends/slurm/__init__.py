"""Jobs under a Slurm that schedules them, through its client commands alone; nothing of Windlass runs there.

Slurm is an external scheduler: it queues, places, requeues and ends jobs, so that no controller of Windlass decides.
- `commands`: runs a command of Slurm; `errors`: its errors
- `job_records`, `accounting_records`, `cluster_nodes`: what squeue, sacct and sinfo print, checked
- `job_states`: a record as a job and its status; `pending_reasons`: why a job waits
- `submission`: the batch script of a job and its options of sbatch; `queries`, `actions`: the calls

`tests/contract/test_external_scheduler.py` checks on a real Slurm the parts of the port's contract that apply.
"""
