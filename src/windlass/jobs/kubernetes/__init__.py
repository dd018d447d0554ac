"""Manifests of training jobs ↔ `core.Job`: the kinds of Kubeflow and our own, and the pods that they become.

Belongs here: the meaning of a manifest; the pods, services, config maps and secrets made from it; its status.
Does not belong here: clients, clocks, randomness, files; the choice of nodes; the decision to restart a gang.
Imports: the standard library, `windlass.core`, `windlass.launch` and the rest of `windlass.jobs`. Dicts in, dicts out.

Packages and modules, each resting on those below it:
- `manifests`: files of manifests, fields that no kind has, job files as objects of a cluster
- `kinds`: `registry.read(manifest, settings) -> ParsedJob | Fault` (raises nothing),
  `registry.members(parsed, generation, sizes)`, `registry.dependent_objects(parsed, running, sizes) -> [dict]`
- `external`: gangs of pods that other controllers create
- `status`: conditions, replica counts and times of a job's object
- `pods`: pods made from templates
- `parsed_job`: `ParsedJob` (`job`, `run_policy`, `priority_class`, `warnings`), `Member`, `with_sizes(parsed, sizes)`
- `settings`: `Settings`: images, names, runtimes and PodGroups of an installation
- `train_runtimes`: the standard runtimes of TrainJobs, and their snapshots
- `manifest_reader`: `ManifestField`, `Fault(path, message)`; `labels`: names of our labels and annotations
"""
