"""Slot of a replacement: the member whose place a new member takes while the rest of its gang goes on.

A gang holds its nodes until all of it has ended. A replacement therefore starts in the slot of a member that has ended,
if it requests the same and the node still takes it. It never gets a node of its own: without such a slot, a gang whose
members the lifecycle restarts (`RestartMember`) is placed again as a whole, and a pod that another controller has
created waits as a gang of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from windlass.core.model.job import Job, Role
from windlass.core.model.status import Placement


def find_replaced_member(
    job: Job, placement: Placement, ended: Iterable[int], fits: Callable[[str], bool], wanted: Role | None = None
) -> int | None:
    """Returns the first of the `ended` members whose slot a replacement may take; None: no slot is left for it.

    `fits`: whether the node of this name still takes its part of the gang (`core.nodes.binding_check`). `wanted`: what
    the replacement requests; None: the same as the member that it replaces.
    """
    slots = [(role, node) for role in job.roles for node in placement.nodes.get(role.name, ())]
    suitable = [role for role in job.roles if wanted is None or _requests(role) == _requests(wanted)]
    return next((each for each in sorted(ended) if slots[each][0] in suitable and fits(slots[each][1])), None)


def _requests(role: Role) -> Role:
    """Returns the role without its name and number of replicas."""
    return replace(role, name="", replicas=1)
