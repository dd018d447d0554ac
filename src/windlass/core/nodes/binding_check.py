"""Check of a placement against the current nodes, made by a backend before it binds or starts a gang.

A plan is made on one version of the snapshot. Before it is carried out, other writers may have taken the capacity
it assumes: pods of other schedulers, or a node that is cordoned or removed. A placement that fails the check is not
started; the backend reports the end of its first member (`failure.end_of_stale_placement`) with
`StalePlacement.message`, and the gang is queued again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from windlass.core.model.gang import Demand
from windlass.core.model.job import Job
from windlass.core.model.node import Node
from windlass.core.model.resources import GPU, GPU_MILLI, Resources, format_readable, is_exclusive
from windlass.core.model.status import Placement


@dataclass(frozen=True, slots=True)
class StalePlacement:
    """The first node on which a placement no longer holds, and why."""

    node: str
    message: str


def find_stale_node(
    demands: Sequence[Demand], placement: Placement, nodes: Mapping[str, Node], held: Mapping[str, Resources]
) -> StalePlacement | None:
    """Returns the first node, by name, that can no longer take its part of the gang; None: the placement still holds.

    `nodes`: the current nodes by name, whose `capacity` excludes foreign pods. `held`: by node, usage of the other
    gangs. GPUs of nodes that share theirs are left to the ledger, which counts them one by one.
    """
    for name in sorted(placement.distinct()):
        here = [(demand, placement.nodes.get(demand.role, ()).count(name)) for demand in demands]
        if message := _fault([pair for pair in here if pair[1]], name, nodes.get(name), held.get(name, {})):
            return StalePlacement(name, message)
    return None


def resources_by_node(gangs: Iterable[tuple[Job, Mapping[str, Sequence[str]]]]) -> dict[str, Counter[str]]:
    """Returns the resources that gangs hold, by node. Of each gang: its job, and by role the nodes of its members."""
    held: dict[str, Counter[str]] = {}
    for job, nodes in gangs:
        for role in job.roles:
            for node in nodes.get(role.name, ()):
                held.setdefault(node, Counter()).update(role.resources)
    return held


def _fault(replicas: Sequence[tuple[Demand, int]], name: str, node: Node | None, held: Resources) -> str:
    if node is None:
        return f"node {name} is gone"
    if not node.ready:
        return f"node {name} is not ready"
    if node.cordoned:
        return f"node {name} is cordoned ({node.cordoned})"
    if any(demand.whole_node for demand, _ in replicas) and any(held.values()):
        return f"node {name} is no longer empty"
    wanted: Counter[str] = Counter()
    for demand, count in replicas:
        wanted.update({resource: amount * count for resource, amount in demand.resources.items()})
    return next((text for resource in sorted(wanted) if (text := _shortage(resource, wanted, node, held))), "")


def _shortage(resource: str, wanted: Mapping[str, int], node: Node, held: Resources) -> str:
    needed, taken = wanted[resource], held.get(resource, 0)
    if is_exclusive(resource):
        is_taken = resource in node.exclusive_in_use or needed + taken > 1
        return f"{resource} is in use on node {node.name}" if needed and is_taken else ""
    if node.sharing and (resource in (GPU, GPU_MILLI) or resource not in node.capacity):
        return ""
    left = max(node.capacity.get(resource, 0) - taken, 0)
    if needed <= left:
        return ""
    free, more = format_readable(resource, left), format_readable(resource, needed)
    return f"node {node.name} has {free} {resource} left, and {more} are needed"
