"""Listings by the formats of Slurm's commands: `squeue`, `sinfo` and `sacct`.

- `format_text`: the text of --format with its % fields; `field_values`: how Slurm writes times, states and names
- `queue_layout`: format and order of squeue
- `start_estimate`: when a job would start; `job_end`: its exit code; `step_screen`, `allocation_step`: srun
- `job_fields`, `node_fields`, `accounting_fields`: the fields of each command; `control_records`: records of scontrol
- `reason_codes`: the codes of squeue(1) for the reasons of jobs
"""
