"""Description of a job: its fields, job files, options of the command line, and the `core.Job` made of them.

- `fields`, `placement_fields`, `mesh`, `begin_time`: the table of all fields of a job
- `job_file` reads files, `options` the command line; `resolution` makes the complete `core.Job` of what they read
- `submission`: a job or an array before it has an id; `rendering` writes it with every default
- `agent_command`: the command under an agent; `hypothetical_job`: a job with changed requests for what-if questions

Values and YAML trees are in `jobs.syntax`, manifests in `jobs.kubernetes`.
"""
