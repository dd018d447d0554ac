"""Batch scripts of Slurm: read for lint, imported as jobs, and rendered from jobs.

- `batch_script`, `sbatch_options`, `srun_step`, `hostlist`: the text of a script, its options and its steps
- `option_fields`, `gang_size`: options of a script as fields of a job, and what has no equivalent
- `shell_environment`: the variables and programs of Slurm for a script that runs as the command of a rank
- `imported_job`: the job of a script
"""
