"""Pod templates of a TrainJob: those of its runtime, with the changes of the job merged over them.

Source: kubeflow/trainer v2.3, pkg/runtime/core/trainingruntime.go, pkg/runtime/framework/plugins/{jobset,torch,mpi}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.jobs.kubernetes.kinds.replica_specs import MAX_REPLICAS, check_template
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestField
from windlass.jobs.kubernetes.parsed_job import Replicas
from windlass.jobs.kubernetes.pods.strategic_merge import merge
from windlass.jobs.kubernetes.settings import Settings
from windlass.jobs.kubernetes.train_runtimes import CLUSTER_RUNTIME, RUNTIME, STEP, TRAINER, built_in

NODE, LAUNCHER = "node", "launcher"
"""Names of a runtime's jobs; the container that trains is called node in either."""
FRAMEWORKS = ("torch", "jax", "xgboost", "mpi")


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime as one job uses it."""

    spec: ManifestField
    framework: str
    """One of FRAMEWORKS; empty: pods have no variables."""
    ml_policy: ManifestField
    """The framework's part of `mlPolicy`."""
    replicas: tuple[Replicas, ...]


def runtime_of(manifest: ManifestField, settings: Settings) -> Runtime:
    """Returns the runtime of a manifest, with the job's changes. Raises ManifestError."""
    # 1. The runtime, of the cluster or of those that are shipped.
    spec = _found(manifest, settings)
    ml = spec["mlPolicy"]
    framework = next((name for name in FRAMEWORKS if ml[name].value is not None), "")
    if ml["flux"].value is not None:
        _refuse(manifest, "is made for Flux, which is not started here; take one for torch, jax, xgboost or mpi")
    # 2. Its jobs, of which all pods start together.
    jobs = spec["template"]["spec"]["replicatedJobs"].items()
    steps = [
        job["name"].text() for job in jobs for other in job["dependsOn"].items() if other["status"].text() != "Ready"
    ]
    if steps:
        _refuse(
            manifest, f"has steps, of which {steps[0]} waits for another to end; all pods of a job start together here"
        )
    trains = [job for job in jobs if _step(job) == TRAINER]
    if not trains:
        _refuse(manifest, f"has no job whose template bears the label {STEP}: {TRAINER}")
    # 3. Their pods, with the changes of this job.
    replicas = tuple(_replicas(manifest, job, ml, trains[0]) for job in jobs)
    return Runtime(
        spec,
        framework,
        ml[framework] if framework else ManifestField({}),
        tuple(each for each in replicas if each.count),
    )


def _found(manifest: ManifestField, settings: Settings) -> ManifestField:
    reference = manifest["spec"]["runtimeRef"]
    name, kind = reference["name"].text(), reference["kind"].choice((CLUSTER_RUNTIME, RUNTIME), CLUSTER_RUNTIME)
    if not name:
        reference["name"].refuse("expects the name of a runtime, such as torch-distributed")
    namespace = (manifest["metadata"]["namespace"].text() or "default") if kind == RUNTIME else ""
    found = settings.runtimes(kind, namespace, name) or built_in(kind, namespace, name)
    if found is None:
        reference["name"].refuse(f"there is no {kind} {name[:60]!r}; kubectl get {kind.lower()}s lists them")
    return ManifestField(found.get("spec"), reference.path)


def _refuse(manifest: ManifestField, why: str) -> None:
    """Raises ManifestError with this reason."""
    manifest["spec"]["runtimeRef"]["name"].refuse(f"the runtime {why}")


def _step(job: ManifestField) -> str:
    return job["template"]["metadata"]["labels"][STEP].text()


def _replicas(manifest: ManifestField, job: ManifestField, ml: ManifestField, trains: ManifestField) -> Replicas:
    name = job["name"].text()
    if (job["replicas"].integer() or 1) != 1:
        job["replicas"].refuse("must be 1: a runtime's job is one job")
    template = _merged_over(manifest, name, job["template"]["spec"]["template"])
    as_node = ml["mpi"]["runLauncherAsNode"].flag()
    if name == trains["name"].text() or (as_node and name == NODE):
        template = _with_trainer(template, manifest["spec"]["trainer"], runs=name == trains["name"].text())
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
    """The pod template with the patches that name its job, in their order."""
    whole = template.mapping()
    for patch in manifest["spec"]["runtimePatches"].items():
        for job in patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"].items():
            if job["name"].text() == name:
                whole = merge(whole, job["template"]["spec"]["template"].mapping())
    for override in manifest["spec"]["podTemplateOverrides"].items():
        if name in [target["name"].text() for target in override["targetJobs"].items()]:
            parts = {part: override[part].mapping() for part in ("metadata", "spec")}
            whole = merge(whole, {part: value for part, value in parts.items() if value})
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
    return {**changed, "env": upsert(changed.get("env"), env)} if env else changed


def upsert(env: Any, more: Sequence[Manifest]) -> list[Manifest]:
    """Returns variables with others added; one of the same name is replaced in its place."""
    new = {each.get("name", ""): each for each in more}
    kept = [
        new.pop(each.value["name"], each.value) if _named(each) else each.value for each in ManifestField(env).items()
    ]
    return [*kept, *new.values()]


def _named(variable: ManifestField) -> bool:
    return isinstance(variable.value, dict) and isinstance(variable.value.get("name"), str)
