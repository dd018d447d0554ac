"""The loop that drives every backend: events → lifecycle → schedule → commands.

Belongs here: the order of the steps. The effect of an event is decided by `core.lifecycle.state_machine`, the placement
of gangs by `core.cycle.scheduler`; commands are performed by the backend. A turn reads no clock and does no I/O, so
that a simulator and a cluster run the same one.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from windlass.backends.deferred_commits import DeferredCommits
from windlass.backends.port import (
    Backend,
    BackendError,
    BackendEvent,
    Changes,
    ClusterChanged,
    JobArrived,
    JobChanged,
    JobEvent,
    Recovery,
    Transition,
)
from windlass.core.cycle.scheduler import schedule
from windlass.core.explain.admission_check import admission_refusal
from windlass.core.ledger import Ledger
from windlass.core.lifecycle import state_machine
from windlass.core.lifecycle.commands import Command, Forget, Launch, Stop
from windlass.core.lifecycle.events import (
    Admit,
    DependencyEnded,
    Event,
    GangGone,
    MemberExited,
    NodeClosed,
    NodeLost,
    Preempt,
    Refused,
    Resized,
    Submitted,
    Timer,
)
from windlass.core.lifecycle.failure import has_exited_by_itself
from windlass.core.lifecycle.generations import stop_command
from windlass.core.lifecycle.member_restarts import restarts_under_way
from windlass.core.lifecycle.spec_update import can_change
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.gang import pending_of, running_of
from windlass.core.model.job import Condition, Dependency, Job
from windlass.core.model.plan import Plan, Preemption
from windlass.core.model.reasons import Verdict
from windlass.core.model.snapshot import PastUsage, Snapshot
from windlass.core.model.status import HOLDING, TERMINAL, JobState, Phase, Status
from windlass.core.nodes.node_health import HeldNodes, NodeMonitor, grace_of

_SPARE_TIMERS = 64
"""Maximum number of outdated timers before they are removed."""
_RETRY_COMMIT_MS = 1_000
"""Wait before a turn that could not be made durable is tried again."""


async def run(controller: Controller, backend: Backend, *, on_trouble: Callable[[str], None]) -> None:
    """Drives a backend until cancelled. `on_trouble` receives the text of each commit that failed, once."""
    deferred = DeferredCommits(on_trouble)
    controller.uncommitted = deferred.state_of
    changes = controller.take_over(backend.now())
    while True:
        # 1. nothing is performed before it is durable; a job that cannot be written holds up no other
        selected = deferred.select(changes, backend.now())
        failures, waiting = await _commit(backend, selected, on_trouble)
        # 2. perform it
        backend.perform(deferred.settle(selected, failures, backend.now()))
        # 3. the events since
        events = waiting or await backend.wait(_earliest(controller.next_due(), deferred.next_due()))
        # 4. their meaning, and the next gangs to start
        changes = controller.turn(events, backend.now())


async def _commit(
    backend: Backend, changes: Changes, on_trouble: Callable[[str], None]
) -> tuple[Mapping[str, str], list[BackendEvent]]:
    """Commits a turn, with as many attempts as it takes. Returns the jobs that failed, and the events meanwhile."""
    events: list[BackendEvent] = []
    reported = ""
    while changes != Changes():
        try:
            return await backend.commit(changes), events
        except BackendError as trouble:
            if str(trouble) != reported:
                reported = str(trouble)
                on_trouble(reported)
            events.extend(await backend.wait(backend.now() + _RETRY_COMMIT_MS))
    return {}, events


def _earliest(*times: int | None) -> int | None:
    return min((at for at in times if at is not None), default=None)


class PlanRecord(NamedTuple):
    """A plan and the snapshot on which it was made."""

    snapshot: Snapshot
    plan: Plan


class Controller:
    """All jobs that have not ended, the ledger of their nodes, and the last plan.

    `finished` looks up a job that the controller has forgotten, for dependencies on it. `refuses`: a job that could
    never run on the present nodes fails at once; otherwise it waits, because nodes may be added.
    """

    def __init__(self, recovery: Recovery, finished: Callable[[str], JobState | None], *, refuses: bool = True) -> None:
        self._refuses = refuses
        cluster = recovery.cluster
        self.states: dict[str, JobState] = {state.id: state for state in recovery.states}
        self.ledger = Ledger(
            cluster.nodes, cluster.queues, cluster.topology, cluster.policy, cluster.reservations, recovery.past
        )
        self.plan = Plan(version=-1, now=0, admissions=(), verdicts={})
        self.decision: PlanRecord | None = None
        """The last plan as it was made, with its snapshot; `plan` has the version after it was applied."""
        self._finished = finished
        self.uncommitted: Callable[[str], JobState | None] = lambda _job_id: None
        """Looks up a job whose last state could not be committed yet."""
        self._dependents: defaultdict[str, set[str]] = defaultdict(set)
        self._timers: list[tuple[int, str]] = []
        self._late: set[str] = set()
        """Jobs to update in the ledger before the next plan; their changes alone need no new plan."""
        self._nodes = NodeMonitor()
        self._nodes_due: int | None = None
        """Time at which a gang loses the next unreachable node, if the node does not report again."""
        self._turn = _Turn()

    # --- what the backend and the endpoints call ---------------------------------------------------

    def take_over(self, now: int) -> Changes:
        """The first turn on a backend: files every job, and repeats commands that may not have been performed."""
        self._turn = _Turn()
        for state in list(self.states.values()):
            self._file(state)
        self.ledger.pass_time(now)
        nodes = self.ledger.snapshot().table.nodes
        self._nodes.observe(nodes, now)
        there = {node.name for node in nodes if not node.lost}
        for state in list(self.states.values()):
            if state.status.phase is Phase.CREATED:
                self._admit_to_queue(state, now)
            self._settle_dependencies(state, now)
            for node in dict.fromkeys(_nodes_of(state)):
                if node not in there:
                    self._apply(state.id, NodeLost(node), now)
            self._report_closed_nodes(state.id, now)
        self._lose_unreachable_nodes(now)
        commanded = {command.job_id for command in self._turn.commands}
        for state in list(self.states.values()):
            self._turn.add(_unanswered_commands(state) if state.id not in commanded else ())
        return self._close(now)

    def turn(self, events: Sequence[BackendEvent], now: int) -> Changes:
        """Applies events and due timers, plans, and returns all changes of the turn."""
        self._turn = _Turn()
        self.ledger.pass_time(now)
        # 1. the cluster first, then events: no gang restarts on a node that was closed in the same turn
        lost = [self._set_cluster(event, now) for event in events]
        for event, nodes in zip(events, lost, strict=True):
            self._handle(event, nodes, now)
        # 2. timers
        for job_id in self._due(now):
            self._apply(job_id, Timer(), now)
        if self._nodes_due is not None and self._nodes_due <= now:
            self._lose_unreachable_nodes(now)
        return self._close(now)

    def next_due(self) -> int | None:
        """Time in ms of the next turn that is needed even without events."""
        while self._timers and not self._is_current(*self._timers[0]):
            heapq.heappop(self._timers)
        return _earliest(*(at for at, _ in self._timers[:1]), self.plan.due, self._nodes_due)

    def refusal(self, job: Job) -> Verdict | None:
        """The reason why this job could never run here; None if it could."""
        return admission_refusal(self.ledger.snapshot(), job)

    def snapshot(self) -> Snapshot:
        """The snapshot on which the next plan would be made."""
        return self.ledger.snapshot()

    # --- one turn ----------------------------------------------------------------------------------

    def _set_cluster(self, event: BackendEvent, now: int) -> tuple[str, ...]:
        """Updates the ledger; returns the nodes that this event declares lost."""
        match event:
            case ClusterChanged(nodes, queues, topology, policy, reservations):
                self._nodes.observe(nodes, now)
                return self.ledger.set_cluster(nodes, queues, topology, policy, reservations)
            case _:
                return ()

    def _handle(self, event: BackendEvent, lost: tuple[str, ...], now: int) -> None:
        match event:
            case JobEvent(job_id, inner):
                self._apply(job_id, self._blame_unreachable_node(job_id, inner), now)
            case JobArrived(job_id, number, job):
                known = self.states.get(job_id)
                # a job that has ended and is kept for its time to live gives way to a new one of its name
                if known is None or (known.status.phase in TERMINAL and known.number != number):
                    state = create_state(job_id, number, job, now)
                    self._keep(state, "Arrived", None, now)
                    self._admit_to_queue(state, now)
                    self._settle_dependencies(state, now)
            case JobChanged(job_id, job):
                self._change(job_id, job, now)
            case ClusterChanged():
                self._lose_nodes(set(lost), now)

    def _change(self, job_id: str, job: Job, now: int) -> None:
        before = self.states.get(job_id)
        if before is None or before.job == job or not can_change(before, job):
            return
        after = replace(before, job=job)
        if after.status.phase is Phase.QUEUED:
            self.ledger.remove_pending(job_id)
        self._keep(after, "Changed", before, now)
        self._file(after)

    def _lose_nodes(self, lost: set[str], now: int) -> None:
        """Reports lost nodes to the gangs on them, and closed nodes to gangs that were to restart there."""
        for state in [state for state in self.states.values() if state.status.phase in HOLDING]:
            for node in dict.fromkeys(_nodes_of(state)):
                if node in lost:
                    self._apply(state.id, NodeLost(node), now)
            self._report_closed_nodes(state.id, now)
        self._lose_unreachable_nodes(now)

    def _lose_unreachable_nodes(self, now: int) -> None:
        """Reports to every gang the nodes that have been unreachable for longer than its grace."""
        holding = (state for state in self.states.values() if state.status.phase in HOLDING)
        lost, self._nodes_due = self._nodes.find_lost(map(self._held_nodes, holding), now)
        for job_id, node in lost:
            self._apply(job_id, NodeLost(node, f"node {node} was unreachable for too long"), now)

    def _held_nodes(self, state: JobState) -> HeldNodes:
        queue = self.ledger.snapshot().queues.get(state.job.queue)
        return HeldNodes(state.id, tuple(dict.fromkeys(_nodes_of(state))), grace_of(state.job, queue))

    def _blame_unreachable_node(self, job_id: str, event: Event) -> Event:
        """Takes a member's error for the loss of a node, if a node of its gang is unreachable: its peers are there."""
        state = self.states.get(job_id)
        if state is None or not isinstance(event, MemberExited) or not has_exited_by_itself(event.exit):
            return event
        node = next((name for name in _nodes_of(state) if self._nodes.is_unreachable(name)), None)
        if node is None or event.generation != state.status.generation:
            return event
        return NodeLost(node, f"a member failed while node {node} was unreachable: {event.exit.detail}")

    def _report_closed_nodes(self, job_id: str, now: int) -> None:
        state = self.states.get(job_id)
        if state is None or state.status.phase is not Phase.RESTARTING:
            return
        table = self.ledger.snapshot().table
        for node in dict.fromkeys(_nodes_of(state)):
            if node in table.row and not table.usable[table.row[node]]:
                self._apply(job_id, NodeClosed(node), now)

    def _close(self, now: int) -> Changes:
        # 3. a new plan, if anything that matters to it has changed
        if self.plan.version != self.ledger.version or (self.plan.due is not None and self.plan.due <= now):
            self._decide(now)
        # 4. all changes as one commit
        changes = self._turn.changes(self.ledger.past)
        self._forget_ended(changes.states)
        return changes

    def _decide(self, now: int) -> None:
        """Plans and applies the plan; again if a gang that is preempted or shrunk gives nodes back at once."""
        at_once = True
        while at_once:
            self._update_ledger()
            snapshot = self.ledger.snapshot()
            self.plan = schedule(snapshot, now)
            self.decision = PlanRecord(snapshot, self.plan)
            for preemption in self.plan.preemptions:
                self._apply(preemption.job_id, Preempt(_describe_preemption(preemption)), now)
            for resize in self.plan.resizes:
                self._apply(resize.job_id, Resized(resize.placement, resize.reason), now)
            for admission in self.plan.admissions:
                self._apply(admission.job_id, Admit(admission.placement), now)
            at_once = any(self.states[p.job_id].status.phase is Phase.QUEUED for p in self.plan.preemptions)
            # a gang that waits out its backoff has no processes: the nodes that it gave up are free now
            at_once |= any(self.states[r.job_id].status.placement == r.placement for r in self.plan.resizes)
        # the ledger has the admitted gangs by now: the verdicts hold for this version
        self.plan = replace(self.plan, version=self.ledger.version)

    def _apply(self, job_id: str, event: Event, now: int) -> None:
        """Applies one event, and those that follow from it for dependent jobs."""
        todo = deque([(job_id, event)])
        while todo:
            target, current = todo.popleft()
            if isinstance(current, GangGone):
                self._report_closed_nodes(target, now)
            before = self.states.get(target)
            if before is None:
                continue
            after, commands = state_machine.step(before, current, now)
            self._turn.add(commands)
            if after is not before:
                self._keep(after, type(current).__name__, before, now)
                todo.extend(self._consequences(before, after))
                if before.status.phase is not after.status.phase is Phase.RESTARTING:
                    self._report_closed_nodes(target, now)

    def _consequences(self, before: JobState, after: JobState) -> Iterable[tuple[str, Event]]:
        if before.status.phase in TERMINAL or after.status.phase not in TERMINAL:
            return ()
        dependents = self._dependents.pop(after.id, set())
        waiting = [self.states[name] for name in sorted(dependents) if name in self.states]
        return [
            (state.id, _end_of(after, dependency))
            for state in waiting
            for dependency in _dependencies_on(state, after.id)
        ]

    def _keep(self, state: JobState, cause: str, before: JobState | None, now: int) -> None:
        """Stores the new state in memory, and adds it to the turn's changes."""
        self.states[state.id] = state
        self._file(state, before)
        self._turn.states[state.id] = state
        old, status = before.status if before else None, state.status
        if old is None or (old.phase, old.reason, old.message) != (status.phase, status.reason, status.message):
            phase = old.phase.value if old else ""
            self._turn.transitions.append(
                Transition(state.id, now, cause, phase, status.phase.value, _describe_status(state))
            )

    def _file(self, state: JobState, before: JobState | None = None) -> None:
        """Updates the ledger and the timers."""
        due = state_machine.next_due(state)
        if due is not None and (before is None or due != state_machine.next_due(before)):
            heapq.heappush(self._timers, (due, state.id))
        if before is not None and _same_to_scheduler(before.status, state.status):
            if _is_other_victim(before.status, state.status):
                self._late.add(state.id)
            return
        status = state.status
        self._late.discard(state.id)
        if status.phase is Phase.QUEUED:
            self.ledger.release(state.id)
            self.ledger.add_pending(pending_of(state))
        else:
            self.ledger.remove_pending(state.id)
            if status.placement is None:
                self.ledger.release(state.id)
            else:
                self.ledger.hold(running_of(state, status.placement))

    def _update_ledger(self) -> None:
        for job_id in sorted(self._late):
            state = self.states.get(job_id)
            if state is not None and state.status.placement is not None:
                self.ledger.hold(running_of(state, state.status.placement))
        self._late.clear()

    def _admit_to_queue(self, state: JobState, now: int) -> None:
        no = self.refusal(state.job) if self._refuses else None
        self._apply(state.id, Submitted() if no is None else Refused(no.message), now)

    def _settle_dependencies(self, state: JobState, now: int) -> None:
        """Registers the job with dependencies that have not ended, and applies those that have."""
        waits_for = set(state.status.waits_for)
        for dependency in state.job.after:
            if dependency.job_id not in waits_for:
                continue
            other = self.states.get(dependency.job_id)
            if other is not None and other.status.phase not in TERMINAL:
                self._dependents[dependency.job_id].add(state.id)
                continue
            # a job that ended in this turn is not stored yet
            ended = other or self.uncommitted(dependency.job_id) or self._finished(dependency.job_id)
            event = _end_of(ended, dependency) if ended else DependencyEnded(dependency.job_id, satisfied=False)
            self._apply(state.id, event, now)

    # --- timers, and removal -------------------------------------------------------------------------

    def _due(self, now: int) -> list[str]:
        due: list[str] = []
        while self._timers and self._timers[0][0] <= now:
            at, job_id = heapq.heappop(self._timers)
            if self._is_current(at, job_id):
                due.append(job_id)
        return due

    def _is_current(self, at: int, job_id: str) -> bool:
        state = self.states.get(job_id)
        return state is not None and state_machine.next_due(state) == at

    def _forget_ended(self, states: Iterable[JobState]) -> None:
        """Removes ended jobs from memory, except those with a time to live."""
        forgotten = self._turn.forgotten
        for job_id in [s.id for s in states if s.status.phase in TERMINAL and s.job.ttl is None] + forgotten:
            self.states.pop(job_id, None)
        if len(self._timers) > 2 * len(self.states) + _SPARE_TIMERS:
            timers = {(due, s.id) for s in self.states.values() if (due := state_machine.next_due(s)) is not None}
            self._timers = sorted(timers)


class _Turn:
    """Changes of the current turn."""

    def __init__(self) -> None:
        self.states: dict[str, JobState] = {}
        self.transitions: list[Transition] = []
        self.commands: list[Command] = []
        self.forgotten: list[str] = []

    def add(self, commands: Iterable[Command]) -> None:
        for command in commands:
            self.commands.append(command)
            if isinstance(command, Forget):
                self.forgotten.append(command.job_id)

    def changes(self, past: Mapping[str, PastUsage]) -> Changes:
        # a launch that is stopped in the same turn is dropped: its nodes may be gone already
        stopped = {(stop.job_id, stop.generation) for stop in self.commands if isinstance(stop, Stop)}
        commands = [c for c in self.commands if not (isinstance(c, Launch) and (c.job_id, c.generation) in stopped)]
        return Changes(
            states=tuple(self.states.values()),
            transitions=tuple(self.transitions),
            forgotten=tuple(self.forgotten),
            commands=tuple(commands),
            past=past if self.states else {},
        )


def _nodes_of(state: JobState) -> tuple[str, ...]:
    """Nodes of the placement and of a pending resize."""
    placements = (state.status.placement, state.status.resize_to)
    return tuple(node for placement in placements if placement is not None for node in placement.distinct())


def _same_to_scheduler(before: Status, after: Status) -> bool:
    """Whether no change can let a gang start."""
    return _waiting_or_holding(before) == _waiting_or_holding(after)


def _waiting_or_holding(status: Status) -> tuple[object, ...]:
    waits = (status.phase is Phase.QUEUED, status.waits_for, status.not_before, status.queued_at, status.avoid)
    return (*waits, status.placement, status.resize_to)


def _is_other_victim(before: Status, after: Status) -> bool:
    """Whether the gang is being stopped, nears its end, or has saved its work: the choice of victims depends on it."""
    old = before.target, before.saved_at, before.done > 0
    return old != (after.target, after.saved_at, after.done > 0)


def _describe_preemption(preemption: Preemption) -> str:
    return f"for {preemption.by}: {preemption.reason}" if preemption.reason else f"for {preemption.by}"


def _unanswered_commands(state: JobState) -> list[Command]:
    """Commands that a previous controller may have decided on and not performed."""
    status = state.status
    if status.gone or status.phase in TERMINAL:
        return []
    if status.target is not None:
        return [stop_command(state)]
    if status.phase is Phase.ADMITTED and status.placement is not None:
        return [Launch(state.id, status.generation, status.placement), *restarts_under_way(state)]
    return list(restarts_under_way(state))


def _dependencies_on(state: JobState, job_id: str) -> list[Dependency]:
    return [dependency for dependency in state.job.after if dependency.job_id == job_id]


def _end_of(state: JobState, dependency: Dependency) -> DependencyEnded:
    ok = dependency.condition is Condition.FINISHED or state.status.phase is Phase.SUCCEEDED
    return DependencyEnded(state.id, satisfied=ok)


def _describe_status(state: JobState) -> str:
    """The line of a job's history: the reason, with its message if it has one."""
    status = state.status
    return f"{status.reason}: {status.message}" if status.message else status.reason
