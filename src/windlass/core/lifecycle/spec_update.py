"""Changes of a job's specification by its owner.

A gang that holds nodes keeps what the books contain of it: its demands, its queue and its claims against other gangs.
A change that takes nothing from others takes effect at once, any other once the gang has released its nodes. A larger
number of replicas of a role that scales in place is such a change: the scheduler decides when they are added.
"""

from __future__ import annotations

import math
from dataclasses import replace

from windlass.core.model.job import Job, Role
from windlass.core.model.status import TERMINAL, JobState, Placement
from windlass.core.model.steps import placed_step


def can_change(state: JobState, job: Job, *, by_cluster: bool = False) -> bool:
    """Whether the job may become `job` now: while it holds nodes, only if others lose nothing.

    Of a job that has ended, only the time to live may change.
    `by_cluster`: the settings of the cluster have changed its queue and priority, which it takes at once.
    """
    if state.status.phase in TERMINAL:
        return job == replace(state.job, ttl=job.ttl)
    if state.status.placement is None:
        return True
    after = replace(job, queue=state.job.queue, priority=state.job.priority) if by_cluster else job
    return _holds_the_same(state.job, after) and _claims_no_more(state.job, after)


def job_as_placed(job: Job, placement: Placement | None) -> Job:
    """The job with the roles and replicas with which it was started, whatever its specification is by now.

    The roles of other steps are those of the specification.
    """
    if placement is None:
        return job
    step = placed_step(job, placement)
    kept = (role for role in job.roles if role.name in placement.nodes or role.step != step)
    return replace(job, roles=tuple(_as_placed(role, placement) for role in kept))


def _as_placed(role: Role, placement: Placement) -> Role:
    nodes = placement.nodes.get(role.name)
    return role if nodes is None or role.is_sized_by_placement else replace(role, replicas=len(nodes))


def _holds_the_same(before: Job, after: Job) -> bool:
    """Whether a running gang is charged the same, to the same queue, user and array."""
    return _charge(before) == _charge(after)


def _charge(job: Job) -> tuple[object, ...]:
    """Returns all that a running gang is charged, without the sizes of roles for which their placement decides.

    Constraints on nodes are left out: they matter where it starts or grows next.
    """
    roles = [
        (
            each.name,
            each.scales_in_place,
            None if each.is_sized_by_placement else each.replicas,
            each.resources,
            each.whole_node,
        )
        for each in job.roles
    ]
    return job.queue, job.user, job.array, job.placed_by, roles


def _claims_no_more(before: Job, after: Job) -> bool:
    """Whether others can have the nodes of a running gang as early as before, and as many of them."""
    return (
        after.priority <= before.priority
        and (after.preemptible or not before.preemptible)
        and after.grace <= before.grace
        and _longest_hold_ms(after) <= _longest_hold_ms(before)
        and all(_minimum(new) <= _minimum(old) for old, new in zip(before.roles, after.roles, strict=True))
    )


def _longest_hold_ms(job: Job) -> float:
    return math.inf if job.walltime is None else job.walltime + job.grace


def _minimum(role: Role) -> int:
    """Returns the number of replicas that others cannot take; of a role that scales in place the placement says it."""
    if role.min_replicas is None:
        return 0 if role.scales_in_place else role.replicas
    return role.min_replicas
