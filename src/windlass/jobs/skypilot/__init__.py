"""Task files of SkyPilot, imported as jobs.

- `task_file`: the documents of a file, one job for each task
- `task_fields`, `resources`, `accelerators`: fields of a task as fields of a job, and what has no equivalent
- `shell_command`: the variables of SkyPilot for `setup` and `run`, which become the command of each node
"""
