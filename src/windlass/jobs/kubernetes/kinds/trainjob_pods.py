"""Pod templates of a TrainJob: those of its runtime, with the changes of the job merged over them.

Source: kubeflow/trainer v2.3, pkg/runtime/core/trainingruntime.go, pkg/runtime/framework/plugins/{jobset,torch,mpi}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from windlass.jobs.kubernetes.kinds.replica_specs import MAX_REPLICAS, check_template
from windlass.jobs.kubernetes.kinds.trainjob_claims import with_claims
from windlass.jobs.kubernetes.kinds.trainjob_initializer import (
    INITIALIZERS,
    ancestor_of,
    check_initializers,
    with_initializer,
)
from windlass.jobs.kubernetes.kinds.trainjob_runtime import (
    FRAMEWORKS,
    check_fields,
    refuse_runtime,
    runtime_spec,
    with_reason,
)
from windlass.jobs.kubernetes.kinds.trainjob_steps import steps_of
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestError, ManifestField
from windlass.jobs.kubernetes.parsed_job import Replicas
from windlass.jobs.kubernetes.pods.pod_assembly import upsert_env
from windlass.jobs.kubernetes.pods.strategic_merge import merge
from windlass.jobs.kubernetes.train_runtimes import STEP, TRAINER, RuntimeSnapshot

NODE, LAUNCHER = "node", "launcher"
"""Names of a runtime's jobs; the container that trains is called node in either."""
_OWN_ENV = (NODE, *INITIALIZERS.values())
"""Containers whose variables have fields of their own in a TrainJob."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime as one job uses it."""

    spec: ManifestField
    framework: str
    """One of FRAMEWORKS; empty: pods have no variables."""
    ml_policy: ManifestField
    """The framework's part of `mlPolicy`."""
    replicas: tuple[Replicas, ...]


def runtime_of(manifest: ManifestField, found: RuntimeSnapshot) -> Runtime:
    """Returns a runtime with the job's changes. Raises ManifestError."""
    try:
        return _runtime_of(manifest, runtime_spec(found))
    except ManifestError as error:
        raise with_reason(error) from None


def _runtime_of(manifest: ManifestField, spec: ManifestField) -> Runtime:
    # 1. The fields that say how it trains.
    check_fields(spec)
    ml = spec["mlPolicy"]
    framework = next((name for name in FRAMEWORKS if ml[name].value is not None), "")
    # 2. Its jobs, and the steps in which they start.
    jobs = spec["template"]["spec"]["replicatedJobs"].items()
    trains = [job for job in jobs if ancestor_of(job) == TRAINER]
    check_initializers(manifest, jobs)
    steps = steps_of(jobs)
    if not trains:
        refuse_runtime(f"has no job whose template bears the label {STEP}: {TRAINER}")
    _check_targets(manifest, jobs)
    # 3. Their pods, with the changes of this job.
    made = (_replicas(manifest, spec, job, trains[0]) for job in jobs)
    replicas = tuple(replace(each, step=steps[each.type]) for each in made)
    return Runtime(
        spec,
        framework,
        ml[framework] if framework else ManifestField({}),
        tuple(each for each in replicas if each.count),
    )


def _check_targets(manifest: ManifestField, jobs: Sequence[ManifestField]) -> None:
    """Refuses changes of jobs and containers that the runtime does not have. Raises ManifestError."""
    pods = {job["name"].text(): job["template"]["spec"]["template"]["spec"] for job in jobs}
    known = {
        name: {each["name"].text() for part in ("containers", "initContainers") for each in pod[part].items()}
        for name, pod in pods.items()
    }
    for target, changes in _changes(manifest):
        name = target["name"].text()
        if name not in known:
            target["name"].refuse(f"{name[:60]!r} is no job of the runtime, which has {', '.join(known)}")
        for part in ("containers", "initContainers"):
            for each in changes["spec"][part].items():
                if each["name"].text() not in known[name]:
                    each["name"].refuse(f"is no container of the runtime's job {name}")
                if part == "containers" and each["name"].text() in _OWN_ENV and each["env"].items():
                    each["env"].refuse("has no effect here: write it into spec.trainer.env or spec.initializer")


def _changes(manifest: ManifestField) -> Iterator[tuple[ManifestField, ManifestField]]:
    """Each change of a pod template in the job, after the job of the runtime that it names, in their order.

    `runtimePatches` are those of the trainer 2.3, `podTemplateOverrides` of 2.1 and 2.2, `podSpecOverrides` of 2.0.
    """
    spec = manifest["spec"]
    for patch in spec["runtimePatches"].items():
        for job in patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"].items():
            yield job, job["template"]["spec"]["template"]
    for override in spec["podTemplateOverrides"].items():
        parts = {part: override[part].mapping() for part in ("metadata", "spec")}
        for target in override["targetJobs"].items():
            yield target, ManifestField({part: value for part, value in parts.items() if value}, override.path)
    for override in spec["podSpecOverrides"].items():
        changed = {name: value for name, value in override.mapping().items() if name != "targetJobs"}
        for target in override["targetJobs"].items():
            yield target, ManifestField({"spec": changed}, override.path)


def _replicas(manifest: ManifestField, spec: ManifestField, job: ManifestField, trains: ManifestField) -> Replicas:
    name, ml = job["name"].text(), spec["mlPolicy"]
    template = _merged_over(manifest, name, job["template"]["spec"]["template"])
    as_node = ml["mpi"]["runLauncherAsNode"].flag()
    if name == trains["name"].text() or (as_node and name == NODE):
        template = _with_trainer(template, manifest["spec"]["trainer"], runs=name == trains["name"].text())
    template = with_claims(spec, manifest["metadata"]["name"].text(), with_initializer(manifest, job, template))
    check_template(ManifestField(template, job["template"].path), None)
    return Replicas(name, name, _count(manifest, job, ml, trains), "OnFailure", template, f"{name}-0")


def _count(manifest: ManifestField, job: ManifestField, ml: ManifestField, trains: ManifestField) -> int:
    """Returns the number of pods of a job; MPI's launcher may be counted among the nodes."""
    parallelism = job["template"]["spec"]["parallelism"].integer(0, MAX_REPLICAS)
    own = 1 if parallelism is None else parallelism
    asked = manifest["spec"]["trainer"]["numNodes"].integer(0, MAX_REPLICAS)
    name = job["name"].text()
    if ml["mpi"].value is not None:
        spare = 1 if ml["mpi"]["runLauncherAsNode"].flag() else 0
        return max(asked - spare, 1) if name == NODE and asked is not None else own
    if name != trains["name"].text():
        return own
    if asked is not None:
        return asked
    return (ml["numNodes"].integer(0, MAX_REPLICAS) or 1) if ml.mapping() else own


def _merged_over(manifest: ManifestField, name: str, template: ManifestField) -> Manifest:
    """The pod template with the changes that name its job, in their order."""
    whole = template.mapping()
    for target, changes in _changes(manifest):
        if target["name"].text() == name:
            whole = merge(whole, changes.mapping())
    return whole


def _with_trainer(template: Mapping[str, Any], trainer: ManifestField, *, runs: bool) -> Manifest:
    """The template whose container `node` is as the job's trainer says; `runs`: this one runs the program."""
    changes: Manifest = {}
    if runs:
        changes = {part: trainer[part].text() for part in ("image",) if trainer[part].value is not None}
        changes |= {
            part: list(trainer[part].text_list()) for part in ("command", "args") if trainer[part].value is not None
        }
    if trainer["resourcesPerNode"].value is not None:
        changes["resources"] = trainer["resourcesPerNode"].mapping()
    env = [{**item.mapping(), "name": item["name"].text()} for item in trainer["env"].items()]
    spec = ManifestField(template)["spec"]
    containers = [
        _one(each.mapping(), changes, env) if each["name"].text() == NODE else each.value
        for each in spec["containers"].items()
    ]
    return {**template, "spec": {**spec.mapping(), "containers": containers}}


def _one(container: Manifest, changes: Manifest, env: Sequence[Manifest]) -> Manifest:
    changed = merge(container, changes)
    return {**changed, "env": upsert_env(changed.get("env"), env)} if env else changed
