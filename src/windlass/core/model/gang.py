"""A job as the scheduler sees it: a gang of equal demands, pending or running."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from windlass.core.model.elastic_size import merged_placement
from windlass.core.model.job import Condition, Job, Match, Role, Toleration, TopologyRequest
from windlass.core.model.resources import GPU, GPU_MILLI
from windlass.core.model.status import JobState, Phase, Placement, Status, Target
from windlass.core.model.steps import job_at_step, placed_step

Shape: TypeAlias = tuple[object, ...]
"""Hashable input of the feasibility test: gangs of equal shape get equal answers."""

ClassKey: TypeAlias = tuple[object, ...]
SortKey: TypeAlias = tuple[tuple[int, ...], int, int, str, int, str]
"""Sort key of a gang: the order's own key, then age, order of submission, array, length of the id, id."""

MAX_MEMBERS = 100_000
"""Maximum size of a gang: a typing error must not fill the memory with node names."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Request of a role: `count` replicas, each of which needs `resources` on one node that admits it."""

    role: str
    count: int
    resources: Mapping[str, int]
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    affinity: tuple[tuple[Match, ...], ...] = ()
    gpu_types: tuple[str, ...] = ()
    """Values of the node label `gpu-type`, best first. The whole gang runs on one of them."""
    avoid: tuple[str, ...] = ()
    """Names of excluded nodes."""
    faulty: tuple[str, ...] = ()
    """Names of nodes that diagnoses of this gang's failures have proven to be bad."""
    whole_node: bool = False
    min_count: int = 0
    """Elastic: minimum number of replicas to start with. 0: `count`."""
    max_count: int = 0
    """Elastic: maximum number of replicas to grow to. 0: `count`."""
    topology: TopologyRequest | None = None
    """Required distance between the gang's replicas; equal for all roles of a gang."""
    grows_in_place: bool = False
    """Of a running gang: its owner requests `max_count` replicas, which are added while the others go on."""
    placed_by: str = ""
    """The other scheduler that places the gang (`Job.placed_by`); equal for all roles of a gang."""


@dataclass(frozen=True)
class PendingGang:
    """A gang that waits. `since` (ms) is the time from which its age counts; `number` is the last tie-break."""

    id: str
    number: int
    queue: str
    priority: int
    since: int
    demands: tuple[Demand, ...]
    shape: Shape
    walltime: int | None = None
    """Longest time, in ms, for which it holds nodes after its start: the job's walltime plus its grace period."""
    waits_for: tuple[str, ...] = ()
    wanted: tuple[Condition, ...] = ()
    """Condition on each of `waits_for`."""
    array_id: str = ""
    array_limit: int = 0
    not_before: int | None = None
    """End of its backoff, in ms."""
    begin: int | None = None
    """Its begin time, in ms: it does not start earlier, and its age counts from then."""
    user: str = ""
    run_time: int = 0
    """Time, in ms, for which it has held nodes before."""
    service: int = 0
    """GPU time that it has attained before, by the GPUs that it held, in milli-GPU-ms."""
    stopped_at: int = 0
    """Time, in ms, of its last release of nodes; 0: it has not run yet."""
    milli_gpus: int = 0
    """GPUs of the whole gang, in thousandths."""
    preemptible: bool = True
    grace: int = 0
    """Time, in ms, that it may take to stop; part of `walltime`."""
    hold: str = ""
    """Why it may not start at present, whatever is free; "" if it may."""

    @property
    def earliest_start(self) -> int:
        """Time, in ms, from which neither its backoff nor its begin time keeps it from starting; 0: none does."""
        return max(self.not_before or 0, self.begin or 0)

    def has_begun(self, now: int) -> bool:
        """Whether it has a begin time, in ms, that has passed."""
        return self.begin is not None and self.begin <= now

    @cached_property
    def minimum_request(self) -> Mapping[str, int]:
        """Minimum request of the whole gang, by resource."""
        return total_of(minimum_demands(self.demands))

    @cached_property
    def full_request(self) -> Mapping[str, int]:
        """Full request of the whole gang, by resource."""
        return total_of(self.demands) if any(demand.min_count for demand in self.demands) else self.minimum_request


@dataclass(frozen=True, slots=True, eq=False)
class EquivalenceClass:
    """Waiting gangs with an equal `class_key_of`, in the order of the queue: one decision is for all. Never empty."""

    gangs: tuple[PendingGang, ...]
    sort_keys: tuple[SortKey, ...]
    """Sort key of each gang."""
    backfill: tuple[PendingGang, ...]
    """The same gangs in the order of backfilling: that in which they are tried for the gaps between reservations."""
    backfill_sort_keys: tuple[SortKey, ...]


@dataclass(frozen=True, slots=True)
class RunningGang:
    """A gang that holds nodes, until `ends_by` at the latest if it has a walltime."""

    id: str
    number: int
    queue: str
    priority: int
    demands: tuple[Demand, ...]
    """`count` is the current number of replicas; for an elastic gang it can differ from the requested one."""
    placement: Placement
    admitted_at: int
    ends_by: int | None = None
    array_id: str = ""
    user: str = ""
    since: int = 0
    run_time: int = 0
    service: int = 0
    """GPU time attained before it was admitted or last resized, in milli-GPU-ms."""
    saved_at: int | None = None
    """Time, in ms, of its last checkpoint, if it reports them."""
    stopping: bool = False
    """It is being stopped, and releases its nodes by `ends_by`, within its grace period."""
    preemptible: bool = True
    unevictable_until: int | None = None
    """Until then, in ms, it is no victim: its last eviction was refused, for example for a disruption budget."""
    resized_at: int | None = None
    resize_to: Placement | None = None
    """Placement after the resize for which it is being stopped. Until then `placement` is the larger on each node."""
    grace: int = 0
    """Time, in ms, that it may take to stop."""
    grow_after: int | None = None
    """Time, in ms, until which nothing is added to it in place: what was added last could not be started."""
    partly_succeeded: bool = False
    """Some members have succeeded: it is not resized any more, because these would have to start again."""

    @property
    def last_changed_at(self) -> int:
        """Time, in ms, when its current generation was admitted or last resized."""
        return self.admitted_at if self.resized_at is None else max(self.admitted_at, self.resized_at)

    def is_unevictable(self, now: int) -> bool:
        """Whether an eviction was refused so recently that it is not tried again."""
        return self.unevictable_until is not None and now < self.unevictable_until

    def service_at(self, now: int) -> int:
        """GPU time attained until `now`, by the GPUs that it holds, in milli-GPU-ms."""
        return self.service + milli_gpus_of(self.demands) * (now - self.last_changed_at)

    def release_time(self, now: int) -> int:
        """Returns the latest time, in ms, at which it has released what it does not keep, if it is stopped by `now`."""
        if self.stopping and self.ends_by is not None:
            return max(self.ends_by, now)
        asked_at = self.resized_at if self.resize_to is not None and self.resized_at is not None else now
        return max(asked_at + self.grace, now)


def demands_of(job: Job) -> tuple[Demand, ...]:
    """Returns one demand per role, in the order of the roles."""
    return tuple(_demand(job, role) for role in job.roles)


def _demand(job: Job, role: Role) -> Demand:
    return Demand(
        role=role.name,
        count=role.replicas,
        resources=role.resources,
        node_selector=role.node_selector,
        tolerations=role.tolerations,
        affinity=role.affinity,
        gpu_types=job.gpu_types,
        avoid=job.avoid,
        whole_node=role.whole_node,
        min_count=role.min_replicas or 0,
        max_count=role.max_replicas or 0,
        topology=job.topology,
        placed_by=job.placed_by,
    )


def shape_of(queue: str, demands: tuple[Demand, ...]) -> Shape:
    """Returns the shape of a gang: its queue and, per role, every input of the feasibility test."""
    return (queue, *(_shape(demand) for demand in demands))


def _shape(d: Demand) -> Shape:
    plain = (d.count, tuple(sorted(d.resources.items())), tuple(sorted(d.node_selector.items())), d.tolerations)
    nodes = (d.affinity, d.gpu_types, d.avoid, d.faulty)
    return (*plain, *nodes, d.whole_node, d.min_count, d.max_count, d.topology, d.placed_by)


def is_placed_elsewhere(demands: Sequence[Demand]) -> bool:
    """Tells whether another scheduler chooses the nodes of a gang."""
    return bool(demands) and bool(demands[0].placed_by)


def unknown_placement(demands: Iterable[Demand]) -> Placement:
    """Returns the placement of a gang that another scheduler has yet to place: a node without a name per replica."""
    return Placement({demand.role: ("",) * demand.count for demand in demands})


def total_of(demands: tuple[Demand, ...]) -> dict[str, int]:
    """Returns the request of the whole gang, by resource; exact (no saturation), so that it can be subtracted again."""
    total: dict[str, int] = {}
    for demand in demands:
        for name, amount in demand.resources.items():
            total[name] = total.get(name, 0) + amount * demand.count
    return total


def milli_gpus_of(demands: tuple[Demand, ...]) -> int:
    """Returns the GPUs of the whole gang in thousandths: whole ones and parts."""
    return sum(d.count * (1000 * d.resources.get(GPU, 0) + d.resources.get(GPU_MILLI, 0)) for d in demands)


def class_key_of(gang: PendingGang) -> ClassKey:
    """Returns the key of a gang's equivalence class: every input of the decision except its position."""
    limited = (gang.array_id, gang.array_limit) if gang.array_limit else None
    time = gang.waits_for, gang.wanted, gang.not_before, gang.begin, gang.hold
    return gang.shape, gang.user, gang.priority, gang.preemptible, limited, *time


def start_gang(gang: PendingGang, placement: Placement, now: int) -> RunningGang:
    """Returns the running gang that a pending gang becomes when it starts now."""
    return RunningGang(
        id=gang.id,
        number=gang.number,
        queue=gang.queue,
        priority=gang.priority,
        demands=demands_as_placed(gang.demands, placement),
        placement=placement,
        admitted_at=now,
        ends_by=None if gang.walltime is None else now + gang.walltime,
        array_id=gang.array_id,
        user=gang.user,
        since=gang.since,
        run_time=gang.run_time,
        service=gang.service,
        preemptible=gang.preemptible,
        grace=gang.grace,
    )


def requeue_gang(run: RunningGang, now: int) -> PendingGang:
    """Returns the pending gang that a running gang becomes if it is stopped now."""
    return PendingGang(
        id=run.id,
        number=run.number,
        queue=run.queue,
        priority=run.priority,
        since=run.since,
        demands=run.demands,
        shape=shape_of(run.queue, run.demands),
        walltime=None if run.ends_by is None else run.ends_by - run.admitted_at,
        array_id=run.array_id,
        user=run.user,
        run_time=run.run_time + now - run.admitted_at,
        service=run.service_at(now),
        stopped_at=now,
        milli_gpus=milli_gpus_of(run.demands),
        preemptible=run.preemptible,
        grace=run.grace,
    )


def demands_as_placed(demands: tuple[Demand, ...], placement: Placement) -> tuple[Demand, ...]:
    """Returns the demands with the placed number of replicas, which for an elastic role can differ from the request."""
    if not any(d.min_count or d.max_count for d in demands):
        return demands
    return tuple(replace(d, count=len(placement.nodes.get(d.role, ()))) for d in demands)


def minimum_demands(demands: tuple[Demand, ...]) -> tuple[Demand, ...]:
    """Returns the demands of the smallest gang that may run: elastic roles at their minimum."""
    if not any(d.min_count for d in demands):
        return demands
    return tuple(replace(d, count=d.min_count or d.count) for d in demands)


def pending_of(state: JobState) -> PendingGang:
    """Returns the pending gang of a queued job."""
    job, status = state.job, state.status
    demands = _without_faulty(demands_of(job_at_step(job, status.step)), status)
    if status.avoided_nodes:
        demands = tuple(replace(each, avoid=(*each.avoid, *status.avoided_nodes)) for each in demands)
    return PendingGang(
        id=state.id,
        number=state.number,
        queue=job.queue,
        priority=job.priority,
        since=_waits_since(status, job.begin),
        demands=demands,
        shape=shape_of(job.queue, demands),
        walltime=None if job.walltime is None else job.walltime + job.grace,
        waits_for=status.waits_for,
        wanted=_wanted(job, status) if status.waits_for else (),
        array_id=job.array.array_id if job.array else "",
        array_limit=job.array.limit if job.array else 0,
        not_before=status.not_before,
        begin=job.begin,
        user=job.user,
        run_time=status.run_time,
        service=status.service,
        stopped_at=status.stopped_at,
        milli_gpus=milli_gpus_of(demands),
        preemptible=job.preemptible,
        grace=job.grace,
        hold=job.hold,
    )


def _waits_since(status: Status, begin: int | None) -> int:
    """Returns the time, in ms, from which a job's age counts: that of a job with a begin time counts from then."""
    queued_at = status.created_at if status.queued_at is None else status.queued_at
    return max(queued_at, begin or 0)


def _wanted(job: Job, status: Status) -> tuple[Condition, ...]:
    conditions = {each.job_id: each.condition for each in job.after}
    return tuple(conditions.get(job_id, Condition.FINISHED) for job_id in status.waits_for)


def _without_faulty(demands: tuple[Demand, ...], status: Status) -> tuple[Demand, ...]:
    """Returns the demands without the nodes that are proven bad."""
    if not status.faulty_nodes:
        return demands
    return tuple(replace(each, faulty=status.faulty_nodes) for each in demands)


def attained_service(state: JobState, now: int) -> int:
    """GPU time that a job has attained until `now`, by the GPUs that it held, in milli-GPU-ms."""
    placement = state.status.placement
    return state.status.service if placement is None else running_of(state, placement).service_at(now)


def running_of(state: JobState, placement: Placement) -> RunningGang:
    """Returns the running gang of a job that holds nodes."""
    job, status = state.job, state.status
    admitted_at = status.admitted_at or 0
    held = merged_placement(placement, status.resize_to)
    return RunningGang(
        id=state.id,
        number=state.number,
        queue=job.queue,
        priority=job.priority,
        demands=_running_demands(state, held),
        placement=held,
        admitted_at=admitted_at,
        ends_by=_ends_by(state, admitted_at),
        array_id=job.array.array_id if job.array else "",
        user=job.user,
        since=_waits_since(status, job.begin),
        run_time=status.run_time,
        service=status.service,
        saved_at=status.saved_at,
        stopping=status.target in _GIVES_BACK,
        preemptible=job.preemptible,
        unevictable_until=status.unevictable_until,
        resized_at=status.resized_at,
        resize_to=status.resize_to,
        grace=job.grace,
        grow_after=status.grow_after,
        partly_succeeded=status.succeeded_members > 0,
    )


def short_roles(job: Job, held: Placement) -> list[tuple[Role, int]]:
    """Returns the roles that scale in place and hold fewer replicas than their owner requests, with their sizes."""
    sizes = ((role, len(held.nodes.get(role.name, ()))) for role in job.roles if role.scales_in_place)
    return [(role, size) for role, size in sizes if size < role.replicas]


def _running_demands(state: JobState, held: Placement) -> tuple[Demand, ...]:
    """Returns the demands with the number of replicas that a gang holds. Roles that scale in place grow to the request.

    Only a gang that runs grows in place: one that starts has requests for its pods under way.
    """
    job = job_at_step(state.job, placed_step(state.job, held))
    grows = state.status.phase is Phase.RUNNING and state.status.target is None
    demands = _without_faulty(demands_as_placed(demands_of(job), held), state.status)
    if not any(role.scales_in_place for role in job.roles):
        return demands
    return tuple(
        _sized_in_place(demand, role, len(held.nodes.get(role.name, ())), grows=grows)
        for demand, role in zip(demands, job.roles, strict=True)
    )


def _sized_in_place(demand: Demand, role: Role, placed: int, *, grows: bool) -> Demand:
    if not role.scales_in_place:
        return demand
    missing = grows and placed < role.replicas
    fewest = min(demand.min_count, placed)
    most = role.replicas if missing else placed if fewest else 0
    return replace(demand, count=placed, min_count=fewest, max_count=most, grows_in_place=missing)


_GIVES_BACK = (Target.REQUEUE, Target.SUSPEND, Target.FAIL, Target.SUCCEED)
"""Targets of a stop after which a gang releases its nodes."""


def _ends_by(state: JobState, admitted_at: int) -> int | None:
    """Returns when walltime plus grace end, in ms; of a gang that is being stopped, at most the end of its grace."""
    job, status = state.job, state.status
    by_walltime = None if job.walltime is None else admitted_at + job.walltime + job.grace
    if status.target not in _GIVES_BACK or status.stopping_since is None:
        return by_walltime
    by_grace = status.stopping_since + state.stop_grace
    return by_grace if by_walltime is None else min(by_grace, by_walltime)
