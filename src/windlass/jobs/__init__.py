"""What people write about jobs and clusters, and the core's types that it becomes.

Belongs here: the command line's options, job files, cluster files, manifests, their errors, their schema and reference.
Does not belong here: ids (the server gives them), starting anything, printing, choosing exit codes.
Imports: the standard library and `windlass.core`; `windlass.launch` only in `kubernetes`; PyYAML only in `document`,
`render`, `schema` and `kubernetes.manifest_file`, msgspec only in `snapshot_file`, so that a job from the command line
never loads them. This package imports none of its modules: name the one you need.

Public names:
- `submission`: `Submission(job, array, array_limit, source)`, `members(submission, array_id) -> [(id, Job)]`
- `options`: `RunOptions`, `from_options(options, command, *, cwd, user) -> Submission`; `help_of(name)`,
  `flags_of(name)` for the command line's own help
- `job_file`: `load(path, options=None, command=(), *, cwd, user) -> [Submission]` ("-" is standard input; options and
  command win over the file), `loads(text, *, source, base, user)`
- `cluster_file`: `Cluster(nodes, queues, topology, policy, reservations)`, `load_cluster(path) -> Cluster`
- `snapshot_file`: `Taken(snapshot, now, plan)`, `dump(taken) -> dict`, `load(plain) -> Taken`, `read_snapshot(path) ->
  Taken`, `decisions_of(plan)`: what of a plan is kept and compared
- `what_if`: `changed(job, "gpus=4 time=1h") -> Job`, raises ValueError
- `queues`: the queues of a cluster file: `QUEUE` (its fields), `queues_of`, `check_queues`
- `errors`: `JobError` (all that can be wrong with what was written; its text is for people), `job_error(source, text)`
- `schema`: `schema() -> dict` (JSON Schema 2020-12)
- `explain`: `explain(path) -> str` ("job.restart.user"; JobError names the nearest)
- `reference`: `reference() -> str`, the page docs/reference/job-file.md (a test with --rewrite writes it)
- `render`: `render(submission, "yaml" | "json") -> str`, `as_fields(submission) -> dict`
- `kubernetes`: manifests of foreign kinds, and the pods that jobs become: a package of its own
- `names`: `is_name`, `valid_name`, `nearest`, `did_you_mean`; `durations`: `parse_duration`, `format_duration`
"""
