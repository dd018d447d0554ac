"""Objects of Dynamic Resource Allocation, for clusters with NVIDIA's DRA driver in place of the device plugin.

Sources: DRA driver for NVIDIA GPUs, pages "MIG" (device attributes type and profile) and "GPU sharing", and its
tests/bats/specs/mps-rct-pod.yaml (GpuConfig of resource.nvidia.com/v1beta1). A ResourceClaimTemplate gives each pod a
device of its own; pods that share a GPU name the same ResourceClaim, so that one claim is made for each shared GPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from windlass.hardware.sharing.modes import Mode, Use
from windlass.hardware.sharing.plan import SharingPlan, WorkloadPlan
from windlass.hardware.sharing.request import Pool

_API = "resource.k8s.io/v1"
_DRIVER = "gpu.nvidia.com"


def dra_objects(plan: SharingPlan) -> list[dict[str, Any]]:
    """Returns DeviceClasses of the uses, and claims or templates of claims of the workloads."""
    classes: dict[str, dict[str, Any]] = {}
    claims: list[dict[str, Any]] = []
    for each in plan.workloads:
        for pods in each.pods:
            name = _class_name(pods.use)
            classes[name] = _device_class(name, pods.use)
            pool = plan.request.pools[pods.option.pool]
            claims += _claims(each, pool, pods.use, pods.number)
    return [*classes.values(), *claims]


def _class_name(use: Use) -> str:
    return f"windlass-mig-{use.profile.name}" if use.profile else "windlass-gpu"


def _device_class(name: str, use: Use) -> dict[str, Any]:
    attributes = f"device.attributes['{_DRIVER}']"
    condition = f"device.driver == '{_DRIVER}' && {attributes}.type == '{'mig' if use.profile else 'gpu'}'"
    if use.profile:
        condition += f" && {attributes}.profile == '{use.profile.name}'"
    return {
        "apiVersion": _API,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": condition}}]},
    }


def _claims(each: WorkloadPlan, pool: Pool, use: Use, number: int) -> Iterator[dict[str, Any]]:
    name = f"{each.workload.name}-{pool.name}-{use.profile.name if use.profile else use.mode}".replace(".", "-")
    devices: dict[str, Any] = {
        "requests": [{"name": "gpu", "exactly": _request(use, min(each.workload.gpus, pool.gpus))}]
    }
    if use.replicas == 1:
        yield {
            "apiVersion": _API,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name},
            "spec": {"spec": {"devices": devices}},
        }
        return
    devices["config"] = [{"requests": ["gpu"], "opaque": {"driver": _DRIVER, "parameters": _sharing(use)}}]
    for index in range(math.ceil(number / use.replicas)):
        yield {
            "apiVersion": _API,
            "kind": "ResourceClaim",
            "metadata": {"name": f"{name}-{index + 1}"},
            "spec": {"devices": devices},
        }


def _request(use: Use, gpus: int) -> dict[str, Any]:
    """Returns the devices of one pod; a gang on several nodes has a pod on each."""
    count = {"count": gpus} if gpus > 1 else {}
    return {"deviceClassName": _class_name(use), **count}


def _sharing(use: Use) -> dict[str, Any]:
    """Returns the driver's parameters; under MPS each pod gets an equal part of the threads."""
    sharing: dict[str, Any] = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Default"}}
    if use.mode is Mode.MPS:
        sharing = {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 100 // use.replicas}}
    return {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": sharing}
