"""Assigns devices of its node to each replica of a gang.

Pure: devices in use are derived from the tasks of living gangs, so a new controller gets the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from windlass.backends.local.nodes import MIG, LocalCluster
from windlass.core.model.job import Job, Role
from windlass.core.model.resources import GPU
from windlass.core.model.status import Placement

Assigned: TypeAlias = dict[tuple[str, int], tuple[str, ...]]
"""(role, replica) → device ids in the format of CUDA_VISIBLE_DEVICES."""


class NoDeviceError(RuntimeError):
    """A node has fewer free devices than the scheduler counted: a device is held that no living gang accounts for."""


def assign_devices(job: Job, placement: Placement, cluster: LocalCluster, in_use: Iterable[str]) -> Assigned:
    """Returns the devices of each replica, in the gang's order. Raises NoDeviceError.

    Shared GPUs were chosen by the scheduler; others are the first free ones of the node. On a node without real devices
    a replica gets none and sees none.
    """
    used = set(in_use)
    assigned: Assigned = {}
    for role in job.roles:
        chosen = placement.devices.get(role.name, ())
        for replica, node in enumerate(placement.nodes.get(role.name, ())):
            owned = cluster.devices.get(node, ())
            if role.whole_node or (chosen and chosen[replica]):
                ids = owned if role.whole_node else tuple(owned[number] for number in chosen[replica] if owned)
            else:
                ids = tuple(_free(cluster, role, node, used, f"{role.name}/{replica}"))
                used.update(ids)
            assigned[role.name, replica] = ids
    return assigned


def _free(cluster: LocalCluster, role: Role, node: str, used: set[str], name: str) -> Iterable[str]:
    for resource, wanted in role.resources.items():
        pool = _pool(cluster, node, resource)
        if not pool or not wanted:
            continue
        free = [device for device in pool if device not in used]
        if len(free) < wanted:
            raise NoDeviceError(f"{node} has {len(free)} free devices, {name} needs {wanted}")
        yield from free[:wanted]


def _pool(cluster: LocalCluster, node: str, resource: str) -> Sequence[str]:
    if resource == GPU:
        return cluster.devices.get(node, ())
    return cluster.instances.get(node, {}).get(resource, ()) if resource.startswith(MIG) else ()
