"""Training runtimes: the standard ones of the Kubeflow trainer, and the snapshot that a TrainJob keeps of its own.

Source: kubeflow/trainer v2.3, manifests/base/runtimes, pkg/runtime/core/snapshot.go. The runtimes of torchtune are left
out: the trainer rewrites their commands.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from windlass.jobs.kubernetes.manifest_reader import Manifest

Lookup: TypeAlias = Callable[[str, str, str], Manifest | None]
"""A runtime by its kind, namespace ("" if it has none) and name; None if there is none."""

TRAIN_JOB = "TrainJob"
NOT_FOUND = "TrainingRuntimeNotFound"
"""Reason of a job that waits for its runtime."""
NOT_SUPPORTED = "TrainingRuntimeNotSupported"
"""Reason of a job whose runtime cannot be used; the trainer's own word."""
FIELD = "runtimeSnapshot"
"""Below `status` of a TrainJob: one text with its runtime as it was when the job arrived."""
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
"""The label of the runtime's job that trains."""
TRAINER = "trainer"
CLUSTER_RUNTIME, RUNTIME = "ClusterTrainingRuntime", "TrainingRuntime"
_IMAGES = {
    "torch": "pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime",
    "jax": "nvcr.io/nvidia/jax:25.10-py3",
    "xgboost": "ghcr.io/kubeflow/trainer/xgboost-runtime",
    "deepspeed": "ghcr.io/kubeflow/trainer/deepspeed-runtime",
    "mlx": "ghcr.io/kubeflow/trainer/mlx-runtime",
}
_MPI = ("deepspeed", "mlx")
_HOME = "/home/mpiuser"


@dataclass(frozen=True, slots=True)
class RuntimeSnapshot:
    """A runtime as it was when its TrainJob arrived: later changes of the object concern new jobs only."""

    manifest: Manifest
    text: str
    """The manifest as JSON, for the job's status."""


def snapshot_of(runtime: Mapping[str, Any]) -> RuntimeSnapshot:
    """The snapshot of a runtime: its kind, its name, its labels and its spec."""
    about = runtime.get("metadata")
    kept = {name: about[name] for name in ("name", "labels") if name in about} if isinstance(about, dict) else {}
    manifest = {"kind": runtime.get("kind"), "metadata": kept, "spec": runtime.get("spec")}
    return RuntimeSnapshot(manifest, json.dumps(manifest, separators=(",", ":")))


def stored_snapshot(status: Any, kind: str, name: str) -> RuntimeSnapshot | None:
    """The snapshot in a job's status; None if there is none of a runtime of this kind and name."""
    text = status.get(FIELD) if isinstance(status, dict) else None
    try:
        manifest: Any = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    about = manifest.get("metadata") if isinstance(manifest, dict) else None
    if not isinstance(about, dict) or (manifest.get("kind"), about.get("name")) != (kind, name):
        return None
    return RuntimeSnapshot(manifest, str(text))


def standard_runtimes() -> list[Manifest]:
    """The runtimes that the trainer ships."""
    return [found for framework in _IMAGES if (found := built_in(CLUSTER_RUNTIME, "", f"{framework}-distributed"))]


def built_in(kind: str, _namespace: str, name: str) -> Manifest | None:
    """A standard runtime by its name, such as torch-distributed; None for other names."""
    framework = name.removesuffix("-distributed")
    if kind != CLUSTER_RUNTIME or not name.endswith("-distributed") or framework not in _IMAGES:
        return None
    policy, job_set = (_mpi if framework in _MPI else _plain)(framework, _IMAGES[framework])
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": framework}},
        "spec": {"mlPolicy": {"numNodes": 1, **policy}, "template": {"spec": job_set}},
    }


def _plain(framework: str, image: str) -> tuple[Manifest, Manifest]:
    node = _job("node", {"containers": [{"name": "node", "image": image}]}, trains=True)
    return {framework: {}}, {"replicatedJobs": [node]}


def _mpi(_framework: str, image: str) -> tuple[Manifest, Manifest]:
    policy = {
        "numProcPerNode": 1,
        "mpiImplementation": "OpenMPI",
        "sshAuthMountPath": f"{_HOME}/.ssh",
        "runLauncherAsNode": True,
    }
    node = {"name": "node", "image": image, "securityContext": {"runAsUser": 1000}}
    serves = {
        "command": ["/usr/sbin/sshd"],
        "args": ["-De", "-f", f"{_HOME}/.sshd_config"],
        "readinessProbe": {"tcpSocket": {"port": 2222}, "initialDelaySeconds": 5},
    }
    group = {"securityContext": {"fsGroup": 1000}}
    jobs = [
        _job("node", {**group, "containers": [{**node, **serves}]}),
        _job("launcher", {**group, "containers": [node]}, trains=True, dependsOn=[{"name": "node", "status": "Ready"}]),
    ]
    success = {"operator": "All", "targetReplicatedJobs": ["launcher"]}
    network = {"publishNotReadyAddresses": True}
    return {"mpi": policy}, {"network": network, "successPolicy": success, "replicatedJobs": jobs}


def _job(name: str, pod: Manifest, *, trains: bool = False, **more: Any) -> Manifest:
    about = {"metadata": {"labels": {STEP: TRAINER}}} if trains else {}
    return {"name": name, **more, "template": {**about, "spec": {"template": {"spec": pod}}}}
