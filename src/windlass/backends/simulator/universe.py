"""The simulated cluster: its clock, its nodes, and the gangs that run on them.

It outlives every controller. An event is kept until a controller has committed that it processed it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush
from typing import TypeAlias

from windlass.backends.members import MemberTracker
from windlass.backends.port import BackendEvent, ClusterChanged, JobEvent
from windlass.backends.simulator.faults import NORMAL, Fault, FaultKind
from windlass.backends.simulator.generation import Generation
from windlass.backends.simulator.machines import Machines
from windlass.backends.simulator.outcome import Cause
from windlass.backends.simulator.progress import Costs, time_needed
from windlass.backends.simulator.script import Delays, Script
from windlass.core.lifecycle import events as e
from windlass.core.lifecycle.failure import STALE_PLACEMENT
from windlass.core.model.elastic_size import job_in_size
from windlass.core.model.gang import demands_of
from windlass.core.model.job import Job
from windlass.core.model.status import JobState, Placement, Target
from windlass.core.nodes.binding_check import StalePlacement, find_stale_node

ScriptOf: TypeAlias = Callable[[str, Job], Script]
RunEndCallback: TypeAlias = Callable[[str, Job, Placement, int, int, Cause], None]
"""Called with every ended generation: id, job as sized, placement, from, until, cause."""

_FIRST, _THEN = 0, 1
"""Order of actions at one time: ends of gangs come first, then everything that follows or arrives."""
_SIGKILL = 9
_SIGTERM = 15


class Universe:
    """The simulated cluster; `schedule` schedules an action, `take` advances time."""

    def __init__(
        self,
        cluster: ClusterChanged,
        script_of: ScriptOf,
        *,
        costs: Costs | None = None,
        delays: Delays | None = None,
        start: int = 0,
        on_run_end: RunEndCallback = lambda *_: None,
    ) -> None:
        self.now = start
        self.states: dict[str, JobState] = {}
        """Job states as committed."""
        self.gangs: dict[str, Generation] = {}
        """Generations by job: alive, or ended and not stopped yet."""
        self.contract_violations: list[str] = []
        """Requests of a controller that violate the port's contract."""
        self.machines = Machines(cluster)
        self._script_of, self._costs, self._delays = script_of, costs or Costs(), delays or Delays()
        self._on_run_end = on_run_end
        self._scheduled: list[tuple[int, int, int, Callable[[], None]]] = []
        self._count = 0
        self._uncommitted: list[BackendEvent] = []
        """Events that were not committed; the first `_delivered` of them were delivered."""
        self._delivered = 0
        self._repeats_commands = False
        """Whether a new controller repeats commands that its predecessor decided before a node was closed."""
        self._refused: list[BackendEvent] = []
        """Delivered events of jobs whose state was refused."""
        self.repeats_refused = False
        """Whether a new controller is yet to hear again of jobs whose state was refused. Until then it takes a job that
        has ended for running, beside a job that was admitted after it."""
        self._launched: dict[str, int] = {}
        self._work_left: dict[str, int | None] = {}

    # --- time --------------------------------------------------------------------------------------

    def schedule(self, at: int, action: Callable[[], None], rank: int = _THEN) -> None:
        """Schedules an action at `at`, or now if that has passed."""
        self._count += 1
        heappush(self._scheduled, (max(at, self.now), rank, self._count, action))

    def report(self, event: BackendEvent) -> None:
        """Queues an event for the controller."""
        self._uncommitted.append(event)

    def arrive(self, at: int, event: BackendEvent) -> None:
        """Schedules an event from outside: a job, or a request about one."""
        self.schedule(at, partial(self.report, event))

    @property
    def over(self) -> bool:
        """Tells whether no action is scheduled any more."""
        return not self._scheduled and self._delivered == len(self._uncommitted)

    def take(self, until: int | None) -> list[BackendEvent]:
        """Advances time until there are events, or until `until`. Returns the events."""
        while self._delivered == len(self._uncommitted):
            following = self._scheduled[0] if self._scheduled else None
            if following is None or (until is not None and following[0] > until):
                self.now = max(self.now, until or 0)
                return []
            self._advance_to(following[0], following[1])
        self._repeats_commands = self.repeats_refused = False
        events = self._uncommitted[self._delivered :]
        self._delivered = len(self._uncommitted)
        return events

    def _advance_to(self, at: int, rank: int) -> None:
        self.now = at
        while self._scheduled and self._scheduled[0][:2] == (at, rank):
            heappop(self._scheduled)[3]()

    @property
    def delivered(self) -> int:
        """Returns the number of events that were delivered and not committed."""
        return self._delivered

    def acknowledge(self, events: int, refused: Collection[str] = ()) -> None:
        """Removes the first `events` delivered events: they were committed, except those of `refused` jobs."""
        done = self._uncommitted[:events]
        del self._uncommitted[:events]
        self._delivered -= events
        if self._refused or refused:
            self._refused = [event for event in (*self._refused, *done) if getattr(event, "job_id", "") in refused]

    def redeliver_all(self) -> None:
        """Marks all events as undelivered, for a new controller."""
        self._uncommitted[:0] = self._refused
        self.repeats_refused = bool(self._refused)
        self._refused.clear()
        self._delivered = 0
        self._repeats_commands = True

    def forget(self, job_id: str) -> None:
        """Forgets a job."""
        for kept in (self.states, self._launched, self._work_left):
            kept.pop(job_id, None)

    # --- gangs -------------------------------------------------------------------------------------

    def launch(self, job_id: str, generation: int, placement: Placement) -> None:
        """Starts every member. Idempotent."""
        if self._launched.get(job_id, 0) >= generation:
            return
        self._launched[job_id] = generation
        if job_id in self.gangs:
            self.contract_violations.append(f"{job_id}: generation {generation} starts while another one lives")
        uninformed = self._repeats_commands or any(isinstance(event, ClusterChanged) for event in self._uncommitted)
        for node in () if uninformed else placement.distinct():
            if problem := self.machines.closed_reason(node):
                self.contract_violations.append(f"{job_id}: starts on {node}, which is {problem}")
        requested = self.states[job_id].job
        job = job_in_size(requested, placement)
        script = self._script_of(job_id, requested)
        work = self._work_left.setdefault(job_id, script.work)
        nodes = tuple(name for role in job.roles for name in placement.nodes[role.name])
        members = MemberTracker(generation, len(nodes), settling=0)
        for member in range(len(nodes)):
            members.appear(member)
        gang = Generation(
            job_id=job_id,
            number=generation,
            placement=placement,
            nodes=nodes,
            members=members,
            script=script,
            begun=self.now,
            settled=self.now,
            needed=None if work is None else time_needed(work, self._costs, first=generation == 1),
            base_speed=NORMAL * job.members // requested.members,
        )
        self.gangs[job_id] = gang
        if uninformed and (stale := self._find_stale_node(gang, job)):
            self._refuse(gang, stale)
        else:
            self._start(gang)

    def _find_stale_node(self, gang: Generation, job: Job) -> StalePlacement | None:
        """Checks a placement that was planned before the last change of the nodes."""
        held: dict[str, Counter[str]] = {}
        for other in self.gangs.values():
            if other is not gang and other.alive:
                for role in job_in_size(self.states[other.job_id].job, other.placement).roles:
                    for node in other.placement.nodes[role.name]:
                        held.setdefault(node, Counter()).update(role.resources)
        nodes = {node.name: node for node in self.machines.known().nodes}
        return find_stale_node(demands_of(job), gang.placement, nodes, held)

    def _refuse(self, gang: Generation, stale: StalePlacement) -> None:
        """Starts no member: the placement is stale, and the first member is reported as lost."""
        for member in sorted(gang.alive):
            gang.members.leave(member)
        gang.failed = True
        gang.members.end(0, e.Exit(lost=True, end_class=STALE_PLACEMENT, detail=stale.message))
        self._report_events(gang)

    def _start(self, gang: Generation) -> None:
        if gang.script.start_error:
            for member in sorted(gang.alive):
                self._exit(gang, member, e.Exit(code=127, detail=f"{gang.script.start_error} on {gang.nodes[member]}"))
            return
        dead = {node for node in gang.nodes if self.machines.is_dead(node)}
        self._lose(gang, dead)
        if not dead:
            self.schedule(self.now + self._delays.start, partial(self._started, gang), _FIRST)
        self._set_speed(gang)

    def _started(self, gang: Generation) -> None:
        if gang.alive and not gang.failed:
            for member in range(len(gang.nodes)):
                gang.members.start(member)
            self._report_events(gang)

    def _report_events(self, gang: Generation) -> None:
        for event in gang.members.take_events(self.now):
            self.report(JobEvent(gang.job_id, event))

    def _set_speed(self, gang: Generation) -> None:
        """Sets the speed of a gang from now on and reschedules its end."""
        gang.settle(self.now)
        slowest = min(self.machines.speed(node) for node in gang.nodes)
        gang.speed = max(1, gang.base_speed * slowest // NORMAL)
        gang.plan += 1
        end = gang.ends_at()
        if end is not None:
            self.schedule(end + self._delays.start, partial(self._finish, gang, gang.plan), _FIRST)

    def _finish(self, gang: Generation, plan: int) -> None:
        if plan != gang.plan or not gang.alive:
            return
        if (back := self.machines.unreachable_until(gang.nodes)) is not None:
            self.schedule(back, partial(self._finish, gang, plan))
            return
        gang.settle(self.now)
        for member in sorted(gang.alive):
            exit = gang.script.exit
            detail = exit.detail or f"member {member} on {gang.nodes[member]} ended"
            self._exit(gang, member, replace(exit, detail=detail))

    def _exit(self, gang: Generation, member: int, exit: e.Exit) -> None:
        gang.members.end(member, exit, self.now)
        if not exit.ok:
            gang.settle(self.now)
            gang.failed = gang.failed or gang.stop_requested_at is None
            gang.plan += 1
        self._report_events(gang)

    def _lose(self, gang: Generation, nodes: set[str]) -> None:
        """Ends, without a report, the members of a gang on these nodes."""
        lost = {member for member in gang.alive if gang.nodes[member] in nodes}
        if lost:
            gang.settle(self.now)
            for member in lost:
                gang.members.leave(member)
            gang.failed = True
            gang.plan += 1
            if not gang.alive and gang.stop_requested_at is not None:
                self.schedule(self.now, partial(self._finish_stop, gang))

    def stop(self, job_id: str, generation: int, grace: int) -> None:
        """Ends every member; answered by one GangGone, at once if nothing is alive."""
        gang = self.gangs.get(job_id)
        if gang is None or gang.number != generation:
            self.schedule(self.now, partial(self._report_once, JobEvent(job_id, e.GangGone(generation))))
            return
        if gang.stop_requested_at is not None:
            return
        gang.settle(self.now)
        gang.stop_requested_at = self.now
        if not gang.alive:
            self.schedule(self.now, partial(self._finish_stop, gang))
            return
        delay = gang.script.end_delay if gang.script.obeys_stop else grace
        signal = _SIGTERM if gang.script.obeys_stop and delay <= grace else _SIGKILL
        self.schedule(self.now + min(delay, grace), partial(self._end_members, gang, signal), _FIRST)

    def _end_members(self, gang: Generation, signal: int) -> None:
        back = self.machines.unreachable_until(gang.nodes[member] for member in gang.alive)
        if back is not None:
            self.schedule(back, partial(self._end_members, gang, signal))
            return
        for member in sorted(gang.alive):
            where = f"member {member} on {gang.nodes[member]}"
            self._exit(gang, member, e.Exit(signal=signal, detail=f"{where} ended by signal {signal}"))
        self.schedule(self.now, partial(self._finish_stop, gang))

    def _finish_stop(self, gang: Generation) -> None:
        if self.gangs.get(gang.job_id) is not gang:
            return
        del self.gangs[gang.job_id]
        cause = self._cause(gang)
        work = self._work_left[gang.job_id]
        if work is not None:
            kept = work if cause is Cause.FINISHED else gang.saved_work(self._costs)
            self._work_left[gang.job_id] = max(0, work - kept)
        job = job_in_size(self.states[gang.job_id].job, gang.placement)
        self._on_run_end(gang.job_id, job, gang.placement, gang.begun, self.now, cause)
        gang.members.vanish()
        self._report_events(gang)

    def _report_once(self, answer: JobEvent) -> None:
        if answer not in self._uncommitted:
            self.report(answer)

    def _cause(self, gang: Generation) -> Cause:
        """Returns the cause of a run's end, from the state that the controller has committed."""
        state = self.states.get(gang.job_id)
        target = state.status.target if state else None
        if target is Target.SUCCEED:
            return Cause.FINISHED
        if state is not None and state.status.reason in ("WalltimeExceeded", "DeadlineExceeded"):
            return Cause.KILLED
        return Cause.LOST if gang.failed else Cause.PREEMPTED

    # --- nodes -------------------------------------------------------------------------------------

    def declare(self, cluster: ClusterChanged) -> None:
        """Replaces nodes, queues and policy; nodes that are missing are removed, with everything that ran there."""
        self.machines.declare(cluster)
        names = {node.name for node in cluster.nodes}
        for gang in list(self.gangs.values()):
            self._lose(gang, set(gang.nodes) - names)
        self.report(self.machines.known())

    def schedule_faults(self, faults: Iterable[Fault]) -> None:
        """Schedules faults."""
        for fault in faults:
            self.schedule(fault.at, partial(self._begin_fault, fault))

    def _begin_fault(self, fault: Fault) -> None:
        match fault.kind:
            case FaultKind.NODE:
                self._kill_node(fault, self._delays.detect)
            case FaultKind.RECLAIM:
                self.machines.close(fault, "is being reclaimed")
                self.report(self.machines.known())
                self.schedule(self.now + fault.notice, partial(self._kill_node, fault, 0))
            case FaultKind.UNREACHABLE:
                self.machines.cut_off(fault)
                self.report(self.machines.known())
                self.schedule(fault.until, partial(self._end_fault, fault))
            case FaultKind.GPU:
                self.machines.close(fault, "Xid 79")
                self.report(self.machines.known())
                self._kill_rank(fault.node)
                self.schedule(fault.until, partial(self._end_fault, fault))
            case FaultKind.RANK:
                self._kill_rank(fault.node)
            case FaultKind.GANG:
                self._vanish_gang(fault.node)
            case FaultKind.SLOW:
                self.machines.slow(fault)
                self._update_speeds(fault.node)
                self.schedule(fault.until, partial(self._end_fault, fault))

    def _kill_node(self, fault: Fault, detect: int) -> None:
        self.machines.kill(fault)
        for gang in self._gangs_on(fault.node):
            self._lose(gang, {fault.node})
        self.schedule(self.now + detect, partial(self._notice, fault))
        self.schedule(max(fault.until, self.now + detect + 1), partial(self._end_fault, fault))

    def _notice(self, fault: Fault) -> None:
        self.machines.notice(fault)
        self.report(self.machines.known())

    def _end_fault(self, fault: Fault) -> None:
        before = self.machines.known()
        self.machines.end_fault(fault)
        if self.machines.known() != before:
            self.report(self.machines.known())
        self._update_speeds(fault.node)

    def _kill_rank(self, node: str) -> None:
        gang = next((gang for gang in self._gangs_on(node) if gang.stop_requested_at is None), None)
        if gang is not None:
            member = min(member for member in gang.alive if gang.nodes[member] == node)
            self._exit(gang, member, e.Exit(signal=_SIGKILL, detail=f"member {member} on {node} was killed"))

    def _vanish_gang(self, node: str) -> None:
        gang = next((gang for gang in self._gangs_on(node) if gang.stop_requested_at is None), None)
        if gang is not None:
            self._lose(gang, set(gang.nodes))
            self._finish_stop(gang)

    def _update_speeds(self, node: str) -> None:
        for gang in self._gangs_on(node):
            self._set_speed(gang)

    def _gangs_on(self, node: str) -> list[Generation]:
        """Returns the gangs with a living member on a node, by id."""
        gangs = (gang for gang in self.gangs.values() if any(gang.nodes[member] == node for member in gang.alive))
        return sorted(gangs, key=lambda gang: gang.job_id)
