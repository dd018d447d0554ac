"""A gang of which a kubelet restarts a rank in place: its job, and the pod statuses that the kubelet writes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from backend_host import Behaviour
from kubernetes_host import namespaced
from operator_place import OperatorPlace

WORKER = f"{namespaced('/api/v1/pods')}/digits-worker-0"


def gang() -> dict[str, Any]:
    """A PyTorchJob of two ranks whose containers kubelets restart."""
    main = {"name": "pytorch", "image": "example.com/job:1", "command": [Behaviour.RUN.value]}
    replicas = {"replicas": 1, "restartPolicy": "OnFailure", "template": {"spec": {"containers": [main]}}}
    spec = {"pytorchReplicaSpecs": {"Master": replicas, "Worker": replicas}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "digits"}, "spec": spec}


def written(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


async def restart(place: OperatorPlace, count: int, state: dict[str, Any], ended: datetime, **end: Any) -> None:
    """Writes the status of the worker's container after so many restarts, as its kubelet does."""
    times = {"startedAt": written(ended - timedelta(seconds=4)), "finishedAt": written(ended)}
    last = {"terminated": {"containerID": "containerd://1", **times, **end}}
    container = {
        "name": "pytorch",
        "image": "example.com/job:1",
        "imageID": "",
        "ready": False,
        "started": False,
        "restartCount": count,
        "state": state,
        "lastState": last,
    }
    ready = [
        {"type": kind, "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status"}
        for kind in ("Ready", "ContainersReady")
    ]
    await place.api.patch(f"{WORKER}/status", {"status": {"containerStatuses": [container], "conditions": ready}})


def backing_off(message: str) -> dict[str, Any]:
    return {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
