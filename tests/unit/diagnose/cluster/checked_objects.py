"""Objects of a cluster for tests, healthy unless a test says otherwise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from windlass.diagnose.check_pages import find_check
from windlass.diagnose.cluster.checklist import check_cluster
from windlass.diagnose.cluster.survey import ClusterSurvey
from windlass.diagnose.steps import CheckStep, State

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
PRODUCT = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
Json = dict[str, Any]


def ago(**since: float) -> str:
    return (NOW - timedelta(**since)).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(name: str, gpus: int = 0, *, offered: int | None = None, ready: str = "True", **more: Any) -> Json:
    """Returns a node of the pool a, with GPUs and their label, or without."""
    labels = {"cloud.google.com/gke-nodepool": "a", **(PRODUCT if gpus else {}), **more.get("labels", {})}
    system = {"containerRuntimeVersion": "containerd://2.1.0", "kubeletVersion": "v1.36.3", "kernelVersion": "6.8"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": more.get("spec", {}),
        "status": {
            "conditions": [{"type": "Ready", "status": ready, "reason": "Why", "message": "text"}],
            "capacity": {"cpu": "64", **({"nvidia.com/gpu": str(gpus)} if gpus else {})},
            "allocatable": {"cpu": "63500m", "nvidia.com/gpu": str(gpus if offered is None else offered)},
            "nodeInfo": {**system, **more.get("system", {})},
        },
    }


def pod(name: str, *, on: str = "", gpus: int = 0, phase: str = "Running", **more: Any) -> Json:
    """Returns a pod; `status`, `metadata` and `spec` replace or add fields."""
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    scheduled = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(minutes=1)}] if on else []
    ready = [{"type": "Ready", "status": "True"}] if phase == "Running" else []
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "creationTimestamp": ago(minutes=5),
            **more.get("metadata", {}),
        },
        "spec": {"nodeName": on, "containers": [{"name": "main", "resources": limits}], **more.get("spec", {})},
        "status": {"phase": phase, "conditions": scheduled + ready, **more.get("status", {})},
    }


def waiting(reason: str, message: str = "", **more: Any) -> Json:
    """Returns the status of a pod whose container waits."""
    return {
        "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": reason, "message": message}}, **more}]
    }


def plugin(on: str, *, ready: bool = True) -> Json:
    conditions = [{"type": "Ready", "status": str(ready)}]
    return pod(f"nvidia-device-plugin-{on}", on=on, status={"conditions": conditions})


def survey(refused: tuple[str, ...] = (), namespace: str = "", **objects: list[Json]) -> ClusterSurvey:
    """Returns a survey; kinds are named with an underscore in place of dots."""
    named = {name.replace("__", "-").replace("_", "."): found for name, found in objects.items()}
    now = int(NOW.timestamp() * 1000)
    return ClusterSurvey(now, named, dict.fromkeys(refused, "forbidden"), namespace)


def check(refused: tuple[str, ...] = (), namespace: str = "", **objects: list[Json]) -> dict[str, CheckStep]:
    steps = check_cluster(survey(refused, namespace, **objects))
    assert len({step.name for step in steps}) == len(steps)
    assert all(find_check(step.name) for step in steps)
    assert all(step.fix for step in steps if step.state in (State.WARNING, State.WRONG))
    return {step.name: step for step in steps}


def faults(steps: dict[str, CheckStep]) -> dict[str, State]:
    return {name: step.state for name, step in steps.items() if step.state in (State.WARNING, State.WRONG)}
