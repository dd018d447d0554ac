"""Job descriptions and cluster descriptions as users write them, and the core's types made from them.

Belongs here: options of the command line, job files, cluster files, manifests; their errors, schema and reference.
Does not belong here: ids (the server assigns them), starting anything, printing, choosing exit codes.
Imports: the standard library and `windlass.core`; `windlass.launch` only in `kubernetes`. PyYAML is imported only by
`syntax.yaml_tree`, `description.rendering`, `field_docs.json_schema` and `kubernetes.manifests`, msgspec only by
`cluster.snapshot_file`, so a job from the command line loads neither. This package imports none of its modules.

Packages, each resting on those below it:
- `field_docs`: documents made from the tables of fields: `field_help.explain(path)` ("job.restart.user"),
  `reference_page.reference()` (docs/reference/job-file.md), `json_schema.schema()` (JSON Schema 2020-12)
- `kubernetes`: manifests of training jobs, and the pods that jobs become
- `cluster`: `cluster_file.load_cluster(path) -> Cluster`; `queues`, `policy_fields` (tables of fields, checks);
  `policy_names`; `snapshot_file`: `to_plain(record)`, `from_plain(plain)`, `read_snapshot(path)`
- `description`: `submission.Submission`, `options.from_options(options, command, cwd=, user=) -> Submission`,
  `job_file.load(path, ...) -> [Submission]` ("-" is standard input; options and command win over the file),
  `rendering.render(submission, "yaml" | "json")`, `hypothetical_job.with_changes(job, "gpus=4 time=1h") -> Job`
- `schedules`: times of a cron expression (`cron_times`), and the decision which run is due (`due_runs.decide`)
- `syntax`: names, durations, timestamps, value types, tables of fields, YAML trees, settings on one line
- `secret_values`: `hide_secrets(job) -> Job`, for everything that shows or archives a job
- `errors`: `InputError` (every fault in what a user wrote; its text is for people), `input_error(source, text)`
"""
