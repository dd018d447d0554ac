"""The size of a gang that may differ from its request: the number of replicas in its placement.

An elastic role may have any number of replicas between its bounds. A gang changes its size between two generations: it
is stopped and then started with another number of replicas. From the decision until then it holds the nodes of both
sizes: on each node, the larger amount. A role that scales in place changes its size during a generation, at its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from windlass.core.model.job import Job, Role
from windlass.core.model.status import JobState, Placement
from windlass.core.model.steps import job_at_step, placed_step

Seat: TypeAlias = tuple[str, tuple[int, ...]]
"""A node and, if the node shares its GPUs, the numbers of the devices held on it."""


def job_in_size(job: Job, placement: Placement | None) -> Job:
    """Returns the job with the roles of the placed step, and the placed number of replicas where sizes vary.

    Ranks, members and requests follow.
    """
    if placement is None:
        return job
    placed = job_at_step(job, placed_step(job, placement))
    if not any(role.is_sized_by_placement for role in placed.roles):
        return placed
    return replace(placed, roles=tuple(_with_size(role, placement.nodes) for role in placed.roles))


def present_job(state: JobState) -> Job:
    """Returns the job as it runs, or is to start next: the roles of its present step, in their size."""
    placement = state.status.placement
    return job_at_step(state.job, state.status.step) if placement is None else job_in_size(state.job, placement)


def _with_size(role: Role, nodes: Mapping[str, tuple[str, ...]]) -> Role:
    if not role.is_sized_by_placement or role.name not in nodes:
        return role
    return replace(role, replicas=len(nodes[role.name]))


def cut_placement(placement: Placement, sizes: Mapping[str, int]) -> Placement:
    """Returns the placement without the last replicas of each role that has more than its number in `sizes`."""
    nodes = {role: names[: sizes.get(role, len(names))] for role, names in placement.nodes.items()}
    devices = {role: held[: sizes.get(role, len(held))] for role, held in placement.devices.items()}
    return Placement(nodes, devices)


def is_longer(placement: Placement, before: Placement) -> bool:
    """Whether a placement has all replicas of another one where they were, and more of them at the end of roles."""
    sizes = {role: len(names) for role, names in before.nodes.items()}
    return placement != before and cut_placement(placement, sizes) == before


def job_at_maximum(job: Job) -> Job:
    """Returns the job with the maximum number of replicas of each role."""
    return replace(job, roles=tuple(replace(r, replicas=max(r.replicas, r.max_replicas or 0)) for r in job.roles))


def merged_placement(before: Placement, after: Placement | None) -> Placement:
    """Returns what a gang holds during a resize: on each node the larger of its two placements."""
    if after is None:
        return before
    nodes, devices = {}, {}
    for role in dict.fromkeys((*before.nodes, *after.nodes)):
        union = list((Counter(_seats(before, role)) | Counter(_seats(after, role))).elements())
        nodes[role] = tuple(node for node, _ in union)
        if role in before.devices or role in after.devices:
            devices[role] = tuple(held for _, held in union)
    return Placement(nodes, devices)


def _seats(placement: Placement, role: str) -> Sequence[Seat]:
    names = placement.nodes.get(role, ())
    held = placement.devices.get(role) or ((),) * len(names)
    return tuple(zip(names, held, strict=True))
