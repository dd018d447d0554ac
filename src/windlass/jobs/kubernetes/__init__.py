"""Manifests of Kubernetes ↔ `core.Job`: foreign kinds of training jobs, and the pods that they and our own become.

Belongs here: what a manifest means, what pods, services, config maps and secrets it becomes, what its status says.
Does not belong here: clients, clocks, randomness, files; which node a pod goes to; when a gang is restarted whole.
Imports: the standard library, `windlass.core`, `windlass.launch` and the rest of `windlass.jobs`. Dicts in, dicts out.

Public names:
- `kinds`: `read(manifest, settings) -> Parsed | Fault` (raises nothing), `members(parsed, generation) -> [Member]`,
  `companions(parsed, running) -> [dict]`, `judge(parsed, objects, remade=, active_for=) -> Judgement`, `KINDS`
- `judgement`: `Judgement` (`create`, `delete`, `conditions`, `replica_statuses`, `ended`)
- `parsed`: `Parsed` (`job`, `policy`, `priority_class`, `warnings`), `Member`
- `settings`: `Settings`: images and names that an installation sets
- `reading`: `Fault(path, message)`
- `run_policy`: `is_ours(policy)`: whether `managedBy` leaves the job to us
"""
