"""The runtime of a TrainJob: found by its `runtimeRef`, and checked for fields that cannot be honoured here.

Source: kubeflow/trainer v2.3, pkg/apis/trainer/v1alpha1/trainingruntime_types.go, pkg/runtime/core; sigs.k8s.io/jobset
v0.10, api/jobset/v1alpha2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from windlass.jobs.kubernetes.labels import QUEUE, VOLCANO_QUEUE
from windlass.jobs.kubernetes.labels import RUNTIME as RUNTIME_ANNOTATION
from windlass.jobs.kubernetes.manifest_reader import Fault, ManifestError, ManifestField
from windlass.jobs.kubernetes.settings import Settings
from windlass.jobs.kubernetes.train_runtimes import (
    CLUSTER_RUNTIME,
    NOT_FOUND,
    NOT_SUPPORTED,
    RUNTIME,
    STEP,
    RuntimeSnapshot,
    built_in,
    snapshot_of,
    stored_snapshot,
)

FRAMEWORKS = ("torch", "jax", "xgboost", "mpi")
GROUP = "trainer.kubeflow.org"
_BUILT_IN = "built-in"
_SOURCES = ("cluster", _BUILT_IN)
_REFERENCE = ("spec", "runtimeRef")
_DEPRECATED = "trainer.kubeflow.org/support"
_USED_METADATA = (STEP, QUEUE, VOLCANO_QUEUE)

# Fields of a runtime, level by level. A field outside of its list is refused, because it would have no effect.
_SPEC = ("mlPolicy", "podGroupPolicy", "template")
_ML_POLICY = ("numNodes", *FRAMEWORKS)
_FRAMEWORK: Mapping[str, Sequence[str]] = {
    "torch": ("numProcPerNode", "envInjection"),
    "mpi": ("numProcPerNode", "mpiImplementation", "sshAuthMountPath", "runLauncherAsNode"),
}
_POD_GROUP = ("coscheduling", "volcano")
_JOB_SET = (
    "replicatedJobs",
    "network",
    "successPolicy",
    "failurePolicy",
    "startupPolicy",
    "volumeClaimPolicies",
    "suspend",  # the job's own decides
    "ttlSecondsAfterFinished",
)
_NETWORK = ("enableDNSHostnames", "subdomain", "publishNotReadyAddresses")
_FAILURE = ("maxRestarts", "restartStrategy")
_REPLICATED_JOB = ("name", "replicas", "groupName", "dependsOn", "template")
_JOB = (
    "template",
    "parallelism",
    "completions",  # the trainer sets both to the number of pods
    "completionMode",
    "backoffLimit",
    "activeDeadlineSeconds",
    "podReplacementPolicy",  # the pods of a generation end before those of the next are created
    "suspend",
)
_ONLY = {
    "completionMode": "Indexed",
    "groupName": "default",
    "enableDNSHostnames": True,
    "mpiImplementation": "OpenMPI",
}
"""Values of fields that have only one here."""


def snapshot(manifest: ManifestField, settings: Settings) -> RuntimeSnapshot:
    """The runtime that a TrainJob is created from: the snapshot in its status, else the present runtime.

    Raises ManifestError; its fault has the reason NOT_FOUND if the runtime may be created later.
    """
    reference = manifest["spec"]["runtimeRef"]
    name, kind = reference["name"].text(), reference["kind"].text() or CLUSTER_RUNTIME
    group = reference["apiGroup"].text() or GROUP
    if not name:
        reference["name"].refuse("expects the name of a runtime, such as torch-distributed")
    if group != GROUP or kind not in (CLUSTER_RUNTIME, RUNTIME):
        expects = f"expects {CLUSTER_RUNTIME} or {RUNTIME} of {GROUP}"
        raise ManifestError(Fault(reference.path, f"unsupported runtime: {kind}.{group}; {expects}", NOT_SUPPORTED))
    if (kept := stored_snapshot(manifest["status"].value, kind, name)) is not None:
        return kept
    namespace = (manifest["metadata"]["namespace"].text() or "default") if kind == RUNTIME else ""
    wants_built_in = manifest["metadata"]["annotations"][RUNTIME_ANNOTATION].choice(_SOURCES, _SOURCES[0]) == _BUILT_IN
    found = (built_in if wants_built_in else settings.runtimes)(kind, namespace, name)
    if found is None:
        where = f" in namespace {namespace}" if namespace else ""
        message = f"there is no {kind} {name[:60]!r}{where}; kubectl get {kind.lower()}s lists them"
        if built_in(kind, "", name) is not None:
            message += ", and windlass operator install --trainer brings the standard ones"
        raise ManifestError(Fault(reference["name"].path, message, "" if wants_built_in else NOT_FOUND))
    return snapshot_of(found)


def runtime_spec(found: RuntimeSnapshot) -> ManifestField:
    """The spec of a runtime. Its faults have the place of the reference in the job."""
    return ManifestField(found.manifest.get("spec"), _REFERENCE)


def with_reason(error: ManifestError) -> ManifestError:
    """The error with the reason NOT_SUPPORTED, if the fault is one of the runtime."""
    fault = error.fault
    is_of_runtime = fault.path[: len(_REFERENCE)] == _REFERENCE and not fault.reason
    return ManifestError(replace(fault, reason=NOT_SUPPORTED)) if is_of_runtime else error


def refuse_runtime(why: str) -> NoReturn:
    """Raises ManifestError with this reason."""
    raise ManifestError(Fault((*_REFERENCE, "name"), f"the runtime {why}", NOT_SUPPORTED))


def check_fields(spec: ManifestField) -> None:
    """Refuses fields of a runtime that cannot be honoured. Raises ManifestError."""
    ml, job_set = spec["mlPolicy"], spec["template"]["spec"]
    if ml["flux"].value is not None:
        refuse_runtime("is made for Flux, which is not started here; take one for torch, jax, xgboost or mpi")
    chosen = [name for name in FRAMEWORKS if ml[name].value is not None]
    if len(chosen) > 1:
        refuse_runtime(f"has {' and '.join(chosen)} in its mlPolicy; only one can be configured")
    _allow(spec, _SPEC)
    _allow(ml, _ML_POLICY)
    for name in chosen:
        _allow(ml[name], _FRAMEWORK.get(name, ()))
    _allow(spec["podGroupPolicy"], _POD_GROUP)
    _allow(spec["podGroupPolicy"]["coscheduling"], ("scheduleTimeoutSeconds",))
    _check_volcano(spec["podGroupPolicy"]["volcano"])
    _allow(spec["template"], ("metadata", "spec"))
    _allow(job_set, _JOB_SET)
    _allow(job_set["network"], _NETWORK)
    _allow(job_set["failurePolicy"], _FAILURE)
    for policy in job_set["volumeClaimPolicies"].items():
        _allow(policy, ("templates", "retentionPolicy"))
        _allow(policy["retentionPolicy"], ("whenDeleted",))
    _check_success(job_set)
    for job in job_set["replicatedJobs"].items():
        _check_job(job)


def _allow(part: ManifestField, known: Sequence[str]) -> None:
    for name, field in part.fields():
        if name not in known and field.value is not None:
            field.refuse("is not supported here, so the runtime cannot be used; remove the field")
        only = _ONLY.get(name)
        if only is not None and field.value not in (None, "", only):
            field.refuse(f"expects {str(only).lower() if only is True else only}")


def _check_volcano(volcano: ManifestField) -> None:
    _allow(volcano, ("networkTopology",))
    topology = volcano["networkTopology"]
    if topology.value is not None and topology["mode"].text() != "soft":
        topology.refuse("requires Volcano's HyperNodes, which are not read here; remove it, or set mode: soft")


def _check_success(job_set: ManifestField) -> None:
    policy = job_set["successPolicy"]
    _allow(policy, ("operator", "targetReplicatedJobs"))
    targets = policy["targetReplicatedJobs"].text_list()
    names = [job["name"].text() for job in job_set["replicatedJobs"].items()]
    if unknown := [name for name in targets if name not in names]:
        policy["targetReplicatedJobs"].refuse(f"{unknown[0][:60]!r} is no job of the runtime")
    if policy["operator"].choice(("All", "Any"), "All") == "Any" and len(targets or names) > 1:
        policy["operator"].refuse("expects All where several jobs are named: one of them cannot decide here")


def _check_job(job: ManifestField) -> None:
    spec = job["template"]["spec"]
    _allow(job, _REPLICATED_JOB)
    _allow(job["template"], ("metadata", "spec"))
    _allow(spec, _JOB)
    if (job["replicas"].integer() or 1) != 1 and not job["template"]["metadata"]["labels"][STEP].text():
        job["replicas"].refuse("must be 1: a runtime's job is one job")


def warnings(found: RuntimeSnapshot, manifest: ManifestField) -> list[str]:
    """Warnings for fields of a runtime and its job that have no effect, one line each. Raises ManifestError."""
    spec, about = runtime_spec(found), ManifestField(found.manifest["metadata"], _REFERENCE)
    group = spec["podGroupPolicy"]
    idle = {
        "podGroupPolicy.coscheduling.scheduleTimeoutSeconds": group["coscheduling"]["scheduleTimeoutSeconds"],
        "podGroupPolicy.volcano.networkTopology": group["volcano"]["networkTopology"],
    }
    made = [f"runtime: {name} has no effect" for name, field in idle.items() if field.value is not None]
    if about["labels"][_DEPRECATED].text() == "deprecated":
        made.append(f"runtime: {about['name'].text()} is deprecated")
    made += _unused_metadata(spec["template"])
    named = [name for name in ("labels", "annotations") if manifest["spec"][name].text_map()]
    return made + [f"spec.{name} have no effect: they are those of the JobSet, and there is none" for name in named]


def _unused_metadata(template: ManifestField) -> list[str]:
    """A warning for labels and annotations of the JobSet and its Jobs, of which there are none here."""
    jobs = [job["template"] for job in template["spec"]["replicatedJobs"].items()]
    found = {
        name
        for each in (template, *jobs)
        for part in ("labels", "annotations")
        for name in each["metadata"][part].text_map()
        if name not in _USED_METADATA
    }
    return [f"runtime: {', '.join(sorted(found))} of the JobSet and its Jobs have no effect"] if found else []
