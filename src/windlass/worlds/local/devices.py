"""Which devices of its node each replica of a gang gets.

Pure: what is taken comes from the tasks of the gangs that live, so a new controller comes to the same answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from windlass.core.job import Job
from windlass.core.resources import GPU
from windlass.core.status import Placement

Assigned: TypeAlias = dict[tuple[str, int], tuple[str, ...]]
"""(role, replica) → device ids, as CUDA_VISIBLE_DEVICES takes them."""


class NoDeviceError(RuntimeError):
    """A node has fewer free devices than the scheduler counted: a device is held that no living gang accounts for."""


def assign(job: Job, placement: Placement, owned: Mapping[str, tuple[str, ...]], taken: Iterable[str]) -> Assigned:
    """The first free devices of each node, replica by replica in the gang's order. Raises NoDeviceError.

    `owned`: node → its real devices; on a node without any, a replica gets none and sees none.
    """
    held = set(taken)
    free = {node: [device for device in devices if device not in held] for node, devices in owned.items()}
    assigned: Assigned = defaultdict(tuple)
    for role in job.roles:
        wanted = role.resources.get(GPU, 0)
        for replica, node in enumerate(placement.nodes.get(role.name, ())):
            if node not in free or not wanted:
                assigned[role.name, replica] = ()
                continue
            if len(free[node]) < wanted:
                raise NoDeviceError(
                    f"{node} has {len(free[node])} free devices, {role.name}/{replica} was promised {wanted}"
                )
            assigned[role.name, replica] = tuple(free[node][:wanted])
            del free[node][:wanted]
    return dict(assigned)
