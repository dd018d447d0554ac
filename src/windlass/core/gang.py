"""A job as the scheduler sees it: a gang of equal demands, waiting or holding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from windlass.core.job import Job, Toleration
from windlass.core.status import JobState, Placement

Shape: TypeAlias = tuple[object, ...]
"""Everything the feasibility of a gang depends on, hashable: gangs of equal shape get equal answers."""

LineKey: TypeAlias = tuple[object, ...]
Turn: TypeAlias = tuple[int, int, int, str, int, str]


MAX_MEMBERS = 100_000
"""The largest gang. A bound, so that a slip of the finger does not fill the memory with names of nodes."""


@dataclass(frozen=True, slots=True)
class Demand:
    """`count` replicas of a role, each needing `resources` on one node that `node_selector` admits."""

    role: str
    count: int
    resources: Mapping[str, int]
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class Pending:
    """A gang that waits. `since` is its age for ordering, in ms; `number` the last tie-break."""

    id: str
    number: int
    queue: str
    priority: int
    since: int
    demands: tuple[Demand, ...]
    shape: Shape
    walltime: int | None = None
    """How long it may hold nodes once it has started: the job's walltime, and the grace it has to end."""
    waits_for: tuple[str, ...] = ()
    array_id: str = ""
    array_limit: int = 0
    not_before: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """Gangs that the scheduler cannot tell apart (`line_of`), by their turn. Never empty."""

    gangs: tuple[Pending, ...]


@dataclass(frozen=True, slots=True)
class Running:
    """A gang that holds nodes, until `ends_by` at the latest if it has a walltime."""

    id: str
    number: int
    queue: str
    priority: int
    demands: tuple[Demand, ...]
    placement: Placement
    admitted_at: int
    ends_by: int | None = None
    array_id: str = ""


def demands_of(job: Job) -> tuple[Demand, ...]:
    """One demand per role, in the roles' order."""
    return tuple(Demand(r.name, r.replicas, r.resources, r.node_selector, r.tolerations) for r in job.roles)


def shape_of(queue: str, demands: tuple[Demand, ...]) -> Shape:
    """The equivalence class of a gang: its queue and, per role, every input of the feasibility test."""
    return (
        queue,
        *(
            (d.count, tuple(sorted(d.resources.items())), tuple(sorted(d.node_selector.items())), d.tolerations)
            for d in demands
        ),
    )


def total_of(demands: tuple[Demand, ...]) -> dict[str, int]:
    """What the whole gang needs, by resource; exact, so that it can be taken back."""
    total: dict[str, int] = {}
    for demand in demands:
        for name, amount in demand.resources.items():
            total[name] = total.get(name, 0) + amount * demand.count
    return total


def turn_of(gang: Pending) -> Turn:
    """Sorts gangs: priority first, then age, then the order of submission, then an array's index.

    The members of an array share a number, and of their ids (sweep-7_2, sweep-7_10) the shorter has the lower index.
    """
    return -gang.priority, gang.since, gang.number, gang.array_id or gang.id, len(gang.id), gang.id


def line_of(gang: Pending) -> LineKey:
    """The line a gang stands in: whatever the answer depends on, apart from its turn."""
    limited = (gang.array_id, gang.array_limit) if gang.array_limit else None
    return gang.shape, limited, gang.waits_for, gang.not_before


def started(gang: Pending, placement: Placement, now: int) -> Running:
    """A waiting gang as it is once it has started."""
    return Running(
        id=gang.id,
        number=gang.number,
        queue=gang.queue,
        priority=gang.priority,
        demands=gang.demands,
        placement=placement,
        admitted_at=now,
        ends_by=None if gang.walltime is None else now + gang.walltime,
        array_id=gang.array_id,
    )


def pending_of(state: JobState) -> Pending:
    """The waiting gang of a queued job."""
    job, status = state.job, state.status
    demands = demands_of(job)
    return Pending(
        id=state.id,
        number=state.number,
        queue=job.queue,
        priority=job.priority,
        since=status.created_at if status.queued_at is None else status.queued_at,
        demands=demands,
        shape=shape_of(job.queue, demands),
        walltime=None if job.walltime is None else job.walltime + job.grace,
        waits_for=status.waits_for,
        array_id=job.array.array_id if job.array else "",
        array_limit=job.array.limit if job.array else 0,
        not_before=status.not_before,
    )


def running_of(state: JobState, placement: Placement) -> Running:
    """The holding gang of a job that has nodes."""
    job, admitted_at = state.job, state.status.admitted_at or 0
    return Running(
        id=state.id,
        number=state.number,
        queue=job.queue,
        priority=job.priority,
        demands=demands_of(job),
        placement=placement,
        admitted_at=admitted_at,
        ends_by=None if job.walltime is None else admitted_at + job.walltime + job.grace,
        array_id=job.array.array_id if job.array else "",
    )
