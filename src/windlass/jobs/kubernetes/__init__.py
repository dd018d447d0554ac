"""Manifests of Kubernetes ↔ `core.Job`: foreign kinds of training jobs, and the pods that they and our own become.

Belongs here: what a manifest means, what pods, services, config maps and secrets it becomes, what its status says.
Does not belong here: clients, clocks, randomness, files; which node a pod goes to; when a gang is restarted whole.
Imports: the standard library, `windlass.core`, `windlass.launch` and the rest of `windlass.jobs`. Dicts in, dicts out.

Public names:
- `kinds`: `read(manifest, settings) -> Parsed | Fault` (raises nothing), `members(parsed, generation, sizes)`,
  `companions(parsed, running, sizes) -> [dict]`, `judge(parsed, objects, remade=, active_for=) -> Judgement`, `KINDS`
- `own_manifests`: `training_job(job, name, namespace) -> dict`: a job of our own as the resource that it is
- `judgement`: `Judgement` (`create`, `delete`, `conditions`, `replica_statuses`, `ended`)
- `job_status`: `status(parsed, judgement, before, now)`, and of gangs whose life is the core's
  `status_of(parsed, life, counts, before, now, waits=, reason=)`; `status_times`: `merge_conditions`, `rfc3339`
- `clean_up`: `left_over(parsed, phases)`, `expires_at(parsed, status)`
- `parsed`: `Parsed` (`job`, `policy`, `priority_class`, `warnings`), `Member`, `resized(parsed, sizes)`
- `settings`: `Settings`: images, names, runtimes and PodGroups of an installation
- `reading`: `Fault(path, message)`
- `run_policy`: `is_ours(policy)`: whether `managedBy` leaves the job to us
- `own_labels`: what our labels and annotations are called
- `others`: gangs of pods that others make
"""
