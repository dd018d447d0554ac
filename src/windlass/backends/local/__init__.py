"""The local world: jobs as processes on this machine.

Belongs here: everything that touches processes, files and devices of this machine. Does not belong here: what an event
means and who starts where (core), HTTP (server), words for people beyond one line of detail (cli).
Importing this package alone imports nothing, so that a supervisor can be started before the rest is loaded.

Public names, by module; design in docs/design/local-backend.md:
- `paths`: `default_state() -> Path` · `prepare(root: Path) -> StatePaths` (the folder, made if need be; `.lock`,
  `.database`, `.api_socket`, `.supervisor_socket`, `.logs`) · `socket_address(path) -> (address, descriptor | None)`
  for
  paths over 107 bytes
- `lock`: `acquire(paths, "up" | "run") -> Lock` (`.release()`), raises `HeldError` (`.holder: Holder | None`) ·
  `holder(paths) -> Holder(pid, started, kind) | None`
- `supervisor_start`: `start_supervisor(paths) -> Link`: returns at once; call it with the lock held, before heavy
imports
- `nodes`: `machine() -> Machine` · `found(machine, queues=())`, `declared(machine, count, gpus, queues=())`,
  `from_nodes(machine, nodes, queues, topology, source)` → `LocalCluster(nodes, queues, topology, devices, instances,
  policy, reservations, text)`
- `world`: `LocalWorld(state: Path, cluster, *, kind, held=None, link=None, environment=None, on_trouble=…)`, which is a
  `worlds.port.World`, and for the faces: `reserve(count=1) -> int` (number of the next job), `inject(event,
  origin=None) -> Future` (done once durable), `wake()`, `set_cluster(cluster)`, `reservations`,
  `set_reservations(reservations)`, `note_verdicts({id: Verdict})`,
  `living() -> bool`, `close(end=False)`, `.store`, `.paths`, `.cluster`
- `store`: `Origin(environment, owner)` of a submission · `open_store(paths) -> Store` · `move_aside(paths) -> Path`
- `records`: `Records.open(paths) -> Records | None` (read-only, beside a controller); on it and on `Store`: `job(id)`,
  `latest(name)`, `members(array_id)`, `resolve(text) -> id`, `jobs(phases=…, failed_for=…, name=…, user=…,
  queue=…, first_come=False, limit=…)`, `alive()`, `history(…)`, `transitions(id)`,
  `tasks(id, generation=None) -> [Task]`, `verdict(id)`, `count()`. Raise `UnknownJobError`, `CorruptError`
- `checkpoints`: `of_jobs(paths, name) -> [Kept(job_id, place)]`. Raises `UnknownJobError`
- `owners`: `describe(pid) -> str`: the `owner` of an `Origin`
- `logs`: `generations(paths, job_id) -> [int]` · `log_files(paths, job_id, generation, ranks=None, streams=("out",
  "err")) -> [LogFile]` · `read(files, since=None) -> Iterator[Line]` (merged by time) · `Cursor(file, since=None)` with
  `.poll() -> [Line]`, `.rest()`, `.close()` for following; `Line(file, at, text)`
"""
