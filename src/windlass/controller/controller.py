"""The controller: the jobs and nodes that it knows, and the changes that it makes out of the events of a turn.

A turn reads no clock and does no I/O, so that a simulator and a cluster run the same one. `run` is the loop between a
controller and its backend: commit, perform, wait, decide.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from windlass.backends.deferred_commits import DeferredCommits, committed
from windlass.backends.port import (
    Backend,
    BackendError,
    BackendEvent,
    Changes,
    ClusterChanged,
    JobArrived,
    JobChanged,
    JobEvent,
    JobRecovered,
    Recovery,
)
from windlass.controller.dependencies import Dependencies
from windlass.controller.job_faults import JobBackendEvent, JobFaults, Report, find_unschedulable, job_of
from windlass.controller.job_ledger import JobLedger
from windlass.controller.job_timers import JobTimers, earliest
from windlass.controller.node_losses import UnreachableNodes, closings_of, losses_of, nodes_of
from windlass.controller.observer import Observer
from windlass.controller.turn import Turn
from windlass.core.cycle.scheduler import schedule
from windlass.core.explain.admission_check import admission_refusal, priority_refusal
from windlass.core.ledger import Ledger
from windlass.core.lifecycle import state_machine
from windlass.core.lifecycle.commands import Command, Launch
from windlass.core.lifecycle.events import (
    Admit,
    Diagnosed,
    Event,
    GangGone,
    Preempt,
    Refused,
    Resized,
    SpecChanged,
    Submitted,
    Timer,
)
from windlass.core.lifecycle.generations import stop_command
from windlass.core.lifecycle.member_restarts import restarts_under_way
from windlass.core.lifecycle.spec_update import can_change
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import Job
from windlass.core.model.plan import Plan, Preemption
from windlass.core.model.queue import Queue
from windlass.core.model.reasons import Verdict
from windlass.core.model.snapshot import Snapshot
from windlass.core.model.status import HOLDING, TERMINAL, JobState, Phase

_RETRY_COMMIT_MS = 1_000
"""Wait before a turn that could not be made durable is tried again."""


class PlanRecord(NamedTuple):
    """A plan and the snapshot on which it was made."""

    snapshot: Snapshot
    plan: Plan


class Controller:
    """All jobs that have not ended, the ledger of their nodes, and the last plan.

    `finished` looks up a job that the controller has forgotten, for dependencies on it. `refuses`: a job that could
    never run on the present nodes fails at once; otherwise it waits, because nodes may be added. `report_fault`
    receives jobs that made a turn raise and were set aside; None: the error ends the turn.
    """

    def __init__(
        self,
        recovery: Recovery,
        finished: Callable[[str], JobState | None],
        *,
        refuses: bool = True,
        report_fault: Report | None = None,
    ) -> None:
        self._refuses = refuses
        cluster = recovery.cluster
        self.states: dict[str, JobState] = {state.id: state for state in recovery.states}
        self.ledger = Ledger(
            cluster.nodes, cluster.queues, cluster.topology, cluster.policy, cluster.reservations, recovery.past_usage
        )
        self.plan = Plan(version=-1, now=0, admissions=(), verdicts={})
        self.decision: PlanRecord | None = None
        """The last plan as it was made, with its snapshot; `plan` has the version after it was applied."""
        self._finished = finished
        self._uncommitted: Callable[[str], JobState | None] = lambda _job_id: None
        self._dependencies = Dependencies(self.states)
        self._timers = JobTimers(self.states)
        self._gangs = JobLedger(self.ledger)
        self._faults = JobFaults(report_fault)
        self._unreachable = UnreachableNodes()
        self._turn = Turn()

    # --- what the backend and the endpoints call ---------------------------------------------------

    def take_over(self, now: int) -> Changes:
        """The first turn on a backend: files every job, and repeats commands that may not have been performed."""
        self._turn = Turn()
        for state in self.states.values():
            with self._faults.contain(state.id, now):
                self._file([state])
        self.ledger.accrue_usage(now)
        self._unreachable.observe(self.ledger.snapshot().table.nodes, now)
        self._resume(list(self.states.values()), now)
        self._decide(now)
        return self._close()

    def turn(self, events: Sequence[BackendEvent], now: int) -> Changes:
        """Applies events and due timers, plans, and returns all changes of the turn."""
        self._turn = Turn()
        self.ledger.accrue_usage(now)
        # 1. the cluster first, then events: no gang restarts on a node that was closed in the same turn
        lost: dict[int, tuple[str, ...]] = {}
        for number, event in enumerate(events):
            if isinstance(event, ClusterChanged):
                self._unreachable.observe(event.nodes, now)
                lost[number] = self.ledger.set_cluster(
                    event.nodes, event.queues, event.topology, event.policy, event.reservations
                )
        for number, event in enumerate(events):
            if isinstance(event, ClusterChanged):
                self._lose_nodes(lost[number], now)
                continue
            with self._faults.contain(job_of(event), now, [event]):
                self._handle(event, now)
        # 2. timers, and jobs that were set aside
        for job_id in self._timers.take_due(now):
            with self._faults.contain(job_id, now):
                self._apply(job_id, Timer(), now)
        self._repeat_failed(now)
        if self._unreachable.due is not None and self._unreachable.due <= now:
            self._lose_unreachable_nodes(now)
        # 3. a new plan
        self._decide(now)
        return self._close()

    def next_due(self) -> int | None:
        """Time in ms of the next turn that is needed even without events."""
        if self.plan.version != self.ledger.version:
            return self.plan.now
        return earliest(self._timers.next_due(), self.plan.due, self._unreachable.due, self._faults.next_due())

    def set_uncommitted(self, jobs: Collection[str], latest: Callable[[str], JobState | None]) -> None:
        """Excludes these jobs from admission, and no others: their last states could not be committed.

        `latest` looks up the last state of such a job, None for another job.
        """
        self._uncommitted = latest
        self._gangs.set_uncommitted(jobs, self.states)

    def refusal(self, job: Job, before: Job | None = None) -> Verdict | None:
        """The reason why this job could never run here; None if it could.

        `before`: the job that it is to replace. None as well if that one could not run for the same reason.
        """
        snapshot = self.ledger.snapshot()
        no = priority_refusal(snapshot, job) or admission_refusal(snapshot, job)
        return None if no is None or (before is not None and no == self.refusal(before)) else no

    def snapshot(self) -> Snapshot:
        """The snapshot on which the next plan would be made."""
        return self.ledger.snapshot()

    # --- one turn ----------------------------------------------------------------------------------

    def _handle(self, event: JobBackendEvent, now: int) -> None:
        """Applies one event of a job."""
        match event:
            case JobEvent(job_id, Diagnosed() as inner) if job_id not in self.states:
                self._diagnose_ended(job_id, inner, now)
            case JobEvent(job_id, inner):
                self._apply(job_id, self._unreachable.blame(self.states.get(job_id), inner, now), now)
            case JobArrived(job_id, number, job):
                known = self.states.get(job_id)
                # a job that has ended and is kept for its time to live gives way to a new one of its name
                if known is None or (known.status.phase in TERMINAL and known.number != number):
                    state = create_state(job_id, number, job, now)
                    self._keep(state, "Arrived", None, now)
                    self._enter(state, now)
            case JobRecovered(state):
                if state.id not in self.states:
                    self.states[state.id] = state
                    self._file([state])
                    self._resume([state], now)
            case JobChanged(job_id, job, by_cluster):
                before = self.states.get(job_id)
                if before is not None and before.job != job and self._takes_change(before, job, by_cluster=by_cluster):
                    after = replace(before, job=job)
                    if after.status.phase is Phase.QUEUED:
                        self.ledger.remove_pending(job_id)
                    self._keep(after, "Changed", before, now)
                    self._timers.set(after)
                    self._gangs.update(after)
                    self._apply(job_id, SpecChanged(), now)

    def _takes_change(self, state: JobState, job: Job, *, by_cluster: bool) -> bool:
        """Whether a job may become `job` now: its nodes permit that, and its submission would not be refused."""
        if not can_change(state, job, by_cluster=by_cluster):
            return False
        return by_cluster or not self._refuses or self.refusal(job, state.job) is None

    def _diagnose_ended(self, job_id: str, event: Diagnosed, now: int) -> None:
        """Adds a verdict to a job that has ended and left the memory; `_close` removes it again."""
        ended = self._uncommitted(job_id) or self._finished(job_id)
        if ended is None:
            return
        after, _commands = state_machine.step(ended, event, now)
        if after is not ended:
            self._turn.add_state(after, ended, type(event).__name__, now)

    def _repeat_failed(self, now: int) -> None:
        """Repeats the events of jobs that were set aside, and lets them take part in the plan again."""
        for job_id, events in self._faults.take_due(now):
            with self._faults.contain(job_id, now, events):
                if (state := self.states.get(job_id)) is not None:
                    self._file([state])
                    self._enter(state, now)
                for event in events:
                    self._handle(event, now)

    def _file(self, states: Iterable[JobState]) -> None:
        """Sets the timers of recovered jobs and books their nodes."""
        for state in states:
            self._timers.set(state)
            self._gangs.update(state)

    def _resume(self, states: Sequence[JobState], now: int) -> None:
        """Continues recovered jobs: applies what they have missed, and repeats unanswered commands."""
        living = {node.name for node in self.ledger.snapshot().table.nodes if not node.lost}
        lost = {node for state in states for node in nodes_of(state)} - living
        for state in states:
            with self._faults.contain(state.id, now):
                self._enter(state, now)
                self._apply(state.id, SpecChanged(), now)  # it may have changed while no controller was up
                for event in losses_of(state, lost):
                    self._apply(state.id, event, now)
                self._report_closed_nodes(state.id, now)
        self._lose_unreachable_nodes(now)
        commanded = {command.job_id for command in self._turn.commands}
        for state in states:
            if state.id not in commanded:
                self._turn.add(_unanswered_commands(self.states[state.id]))

    def _enter(self, state: JobState, now: int) -> None:
        """Queues a job that has just been created, and applies the ends of jobs that it waits for."""
        if state.status.phase is Phase.CREATED:
            no = self.refusal(state.job) if self._refuses else None
            self._apply(state.id, Submitted() if no is None else Refused(no.message), now)
        # a job that ended in this turn is not stored yet
        for event in self._dependencies.settle(state, lambda other: self._uncommitted(other) or self._finished(other)):
            self._apply(state.id, event, now)

    def _lose_nodes(self, lost: Sequence[str], now: int) -> None:
        """Reports lost nodes to the gangs on them, and closed nodes to gangs that were to restart there."""
        nodes = frozenset(lost)
        for state in [state for state in self.states.values() if state.status.phase in HOLDING]:
            with self._faults.contain(state.id, now):
                for event in losses_of(state, nodes):
                    self._apply(state.id, event, now)
                self._report_closed_nodes(state.id, now)
        self._lose_unreachable_nodes(now)

    def _lose_unreachable_nodes(self, now: int) -> None:
        """Reports to every gang the nodes that have been unreachable for longer than its grace."""

        def queue_of(name: str) -> Queue | None:  # only called, and a snapshot taken, if a node is unreachable
            return self.ledger.snapshot().queues.get(name)

        for job_id, event in self._unreachable.find_lost(self.states.values(), queue_of, now):
            with self._faults.contain(job_id, now):
                self._apply(job_id, event, now)

    def _report_closed_nodes(self, job_id: str, now: int) -> None:
        """Reports closed nodes, and nodes that others hold, to a gang that is to restart there."""
        state = self.states.get(job_id)
        if state is not None and state.status.phase is Phase.RESTARTING:
            for event in closings_of(state, self.ledger.snapshot()):
                self._apply(job_id, event, now)

    def _close(self) -> Changes:
        """Returns all changes of the turn as one commit."""
        changes = self._turn.changes(self.ledger.past_usage)
        # ended jobs leave the memory, except those with a time to live
        ended = [state.id for state in changes.states if state.status.phase in TERMINAL and state.job.ttl is None]
        for job_id in ended + self._turn.forgotten:
            self.states.pop(job_id, None)
        self._timers.remove_outdated()
        return changes

    def _decide(self, now: int) -> None:
        """Plans, if anything that matters to the plan has changed, and applies the plan.

        Plans again if a gang that is preempted or shrunk gives nodes back at once.
        """
        if self.plan.version == self.ledger.version and (self.plan.due is None or self.plan.due > now):
            return
        at_once = True
        while at_once:
            self._gangs.update_late(self.states)
            self.ledger.open_begin_times(now)
            self.decision = self._make_plan(now)
            self.plan = self.decision.plan
            for job_id, event in _decisions(self.plan):
                try:
                    self._apply(job_id, event, now)
                except Exception as error:  # noqa: BLE001 - a gang that cannot take it leaves the plan for a while
                    self._faults.add(job_id, now, error)
                    self.ledger.remove_pending(job_id)
            at_once = any(self.states[p.job_id].status.phase is Phase.QUEUED for p in self.plan.preemptions)
            # a gang that waits out its backoff has no processes: the nodes that it gave up are free now
            at_once |= any(self.states[r.job_id].status.placement == r.placement for r in self.plan.resizes)
        # the ledger has the admitted gangs by now: the verdicts hold for this version
        self.plan = replace(self.plan, version=self.ledger.version)

    def _make_plan(self, now: int) -> PlanRecord:
        """Plans. Waiting gangs that make the scheduler raise are left out; without any, the error is raised."""
        snapshot = self.ledger.snapshot()
        try:
            return PlanRecord(snapshot, schedule(snapshot, now))
        except Exception:
            faulty = find_unschedulable(snapshot, now)
            if not faulty:
                raise
            for job_id, error in faulty.items():
                self._faults.add(job_id, now, error)
                self.ledger.remove_pending(job_id)
        snapshot = self.ledger.snapshot()
        return PlanRecord(snapshot, schedule(snapshot, now))

    def _apply(self, job_id: str, event: Event, now: int) -> None:
        """Applies one event, and those that follow from it for dependent jobs."""
        todo: deque[tuple[str, Event]] = deque([(job_id, event)])
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
                if before.status.phase not in TERMINAL and after.status.phase in TERMINAL:
                    todo.extend(self._dependencies.end(after))
                elif before.status.started_at is None is not after.status.started_at:
                    todo.extend(self._dependencies.start(after))
                if before.status.phase is not after.status.phase is Phase.RESTARTING:
                    self._report_closed_nodes(target, now)

    def _keep(self, state: JobState, cause: str, before: JobState | None, now: int) -> None:
        """Keeps the new state, and adds it to the turn's changes."""
        self.states[state.id] = state
        self._timers.set(state, before)
        self._gangs.update(state, before)
        self._turn.add_state(state, before, cause, now)


def _decisions(plan: Plan) -> Iterator[tuple[str, Event]]:
    """Yields the decisions of a plan as events, in the order in which they are applied."""
    for preemption in plan.preemptions:
        yield preemption.job_id, Preempt(_describe_preemption(preemption))
    for resize in plan.resizes:
        yield resize.job_id, Resized(resize.placement, resize.reason)
    for admission in plan.admissions:
        yield admission.job_id, Admit(admission.placement)


def _describe_preemption(preemption: Preemption) -> str:
    return f"for {preemption.by}: {preemption.reason}" if preemption.reason else f"for {preemption.by}"


def _unanswered_commands(state: JobState) -> list[Command]:
    """Commands that a previous controller may have decided on and not performed."""
    status = state.status
    if status.is_gone or status.phase in TERMINAL:
        return []
    if status.target is not None:
        return [stop_command(state)]
    if status.phase is Phase.ADMITTED and status.placement is not None:
        launch = Launch(state.id, status.generation, status.placement, is_repeated=True)
        return [launch, *restarts_under_way(state)]
    return list(restarts_under_way(state))


async def run(
    controller: Controller, backend: Backend, observers: Sequence[Observer] = (), *, on_trouble: Callable[[str], None]
) -> None:
    """Drives a backend until cancelled. `on_trouble` receives the text of each commit that failed, once."""
    deferred = DeferredCommits(on_trouble)
    changes = controller.take_over(backend.now())
    while True:
        # 1. nothing is performed before it is durable; a job that cannot be written holds up no other
        selected = deferred.select(changes, backend.now())
        failures, waiting = await _commit(backend, selected, observers, on_trouble)
        # 2. perform it
        backend.perform(deferred.settle(selected, failures, backend.now()))
        controller.set_uncommitted(deferred.jobs, deferred.state_of)
        # 3. the events since, after those of gangs that could not be launched
        withheld = deferred.take_withheld_launches()
        due = backend.now() if withheld else earliest(controller.next_due(), deferred.next_due())
        events = waiting or await backend.wait(due)
        # 4. their meaning, and the next gangs to start
        for observer in observers:
            observer.on_turn_start()
        changes = controller.turn([*withheld, *events], backend.now())
        for observer in observers:
            observer.on_turn_end()


async def _commit(
    backend: Backend, changes: Changes, observers: Sequence[Observer], on_trouble: Callable[[str], None]
) -> tuple[Mapping[str, str], list[BackendEvent]]:
    """Commits a turn, with as many attempts as it takes. Returns the jobs that failed, and the events meanwhile."""
    events: list[BackendEvent] = []
    reported = ""
    while changes != Changes():
        for observer in observers:
            observer.on_commit_start(changes)
        try:
            failures = await backend.commit(changes)
        except BackendError as trouble:
            for observer in observers:
                observer.on_commit_failed()
            if str(trouble) != reported:
                reported = str(trouble)
                on_trouble(reported)
            events.extend(await backend.wait(backend.now() + _RETRY_COMMIT_MS))
        else:
            for observer in observers:
                observer.on_commit_end(committed(changes, failures))
            return failures, events
    return {}, events
