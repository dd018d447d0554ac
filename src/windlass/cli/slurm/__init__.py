"""Listings by the formats of Slurm's commands: `squeue`, `sinfo` and `sacct`.

- `format_text`: the text of --format with its % fields; `field_values`: how Slurm writes times, states and names
- `job_fields`, `node_fields`, `accounting_fields`: the fields of each command
"""
