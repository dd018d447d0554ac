"""What the ranks of a job find around them, in words: threads and devices."""

from __future__ import annotations

from windlass.core.job import Role
from windlass.core.resources import GPU
from windlass.core.status import JobState, Placement
from windlass.launch.threads import threads_of
from windlass.worlds.local.launching import cpu_share
from windlass.worlds.local.nodes import LocalCluster


def surroundings(state: JobState, cluster: LocalCluster) -> list[str]:
    """One line on threads for each role, where they differ, and one on devices; empty without a placement."""
    placement = state.status.placement
    if placement is None:
        return []
    threads = {role.name: _threads(role, placement, cluster) for role in state.job.roles}
    same = len(set(threads.values())) == 1
    said = [next(iter(threads.values()))] if same else [f"{name}: {text}" for name, text in threads.items()]
    return [*said, *_devices(state, placement, cluster)]


def _threads(role: Role, placement: Placement, cluster: LocalCluster) -> str:
    nodes = {node.name: node for node in cluster.nodes}
    where = placement.nodes[role.name][0]
    share = cpu_share(placement.nodes, role, nodes[where]) if where in nodes else 1000
    return threads_of(role, cpu_share=share).why


def _devices(state: JobState, placement: Placement, cluster: LocalCluster) -> list[str]:
    asked = sum(role.resources.get(GPU, 0) * role.replicas for role in state.job.roles)
    if not asked:
        return []
    real = [node for node in placement.distinct() if node in cluster.devices]
    return [f"{asked} GPUs" if real else f"{asked} CPU slots stand in for GPUs"]
