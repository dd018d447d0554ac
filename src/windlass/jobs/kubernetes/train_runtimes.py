"""Built-in training runtimes: those that the Kubeflow trainer ships, for clusters that lack them.

Source: kubeflow/trainer v2.3, manifests/base/runtimes. Those of torchtune are left out: they are made of steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from windlass.jobs.kubernetes.manifest_reader import Manifest

Lookup: TypeAlias = Callable[[str, str, str], Manifest | None]
"""A runtime by its kind, namespace ("" if it has none) and name; None if there is none."""

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


def built_in(kind: str, _namespace: str, name: str) -> Manifest | None:
    """A built-in runtime by its name, such as torch-distributed; None for other names."""
    framework = name.removesuffix("-distributed")
    if kind != CLUSTER_RUNTIME or not name.endswith("-distributed") or framework not in _IMAGES:
        return None
    policy, jobs = (_mpi if framework in _MPI else _plain)(framework, _IMAGES[framework])
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": framework}},
        "spec": {"mlPolicy": {"numNodes": 1, **policy}, "template": {"spec": {"replicatedJobs": jobs}}},
    }


def _plain(framework: str, image: str) -> tuple[Manifest, list[Manifest]]:
    return {framework: {}}, [_job("node", {"containers": [{"name": "node", "image": image}]}, trains=True)]


def _mpi(_framework: str, image: str) -> tuple[Manifest, list[Manifest]]:
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
    return {"mpi": policy}, [
        _job("node", {**group, "containers": [{**node, **serves}]}),
        _job("launcher", {**group, "containers": [node]}, trains=True, dependsOn=[{"name": "node", "status": "Ready"}]),
    ]


def _job(name: str, pod: Manifest, *, trains: bool = False, **more: Any) -> Manifest:
    about = {"metadata": {"labels": {STEP: TRAINER}}} if trains else {}
    return {"name": name, **more, "template": {**about, "spec": {"template": {"spec": pod}}}}
