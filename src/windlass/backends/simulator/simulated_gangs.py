"""The simulated gangs: they start, run at the speed of their slowest node, and end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from windlass.backends.members import MemberTracker
from windlass.backends.port import JobEvent
from windlass.backends.simulator.faults import NORMAL
from windlass.backends.simulator.generation import Generation
from windlass.backends.simulator.machines import Machines
from windlass.backends.simulator.outcome import EndCause
from windlass.backends.simulator.progress import Costs, time_needed
from windlass.backends.simulator.script import Delays, Script
from windlass.backends.simulator.timeline import FIRST, Timeline
from windlass.core.lifecycle import events as e
from windlass.core.lifecycle.failure import end_of_stale_placement
from windlass.core.model.elastic_size import job_in_size
from windlass.core.model.gang import demands_of
from windlass.core.model.job import Job
from windlass.core.model.status import JobState, Placement, Target
from windlass.core.nodes.binding_check import find_stale_node, resources_by_node

ScriptOf: TypeAlias = Callable[[str, Job], Script]
RunEndCallback: TypeAlias = Callable[[str, Job, Placement, int, int, EndCause], None]
"""Called with every ended generation: id, job as sized, placement, from, until, cause."""
SIGKILL = 9
SIGTERM = 15


class SimulatedGangs:
    """The gangs on `machines`. `states`: job states as committed."""

    def __init__(
        self,
        timeline: Timeline,
        machines: Machines,
        states: dict[str, JobState],
        script_of: ScriptOf,
        costs: Costs,
        delays: Delays,
        on_run_end: RunEndCallback,
    ) -> None:
        self._timeline, self._machines, self._states = timeline, machines, states
        self._script_of, self._costs, self._delays = script_of, costs, delays
        self._on_run_end = on_run_end
        self.by_job: dict[str, Generation] = {}
        """Generations by job: alive, or ended and not stopped yet."""
        self.contract_violations: list[str] = []
        """Requests of a controller that violate the port's contract."""
        self._launched: dict[str, int] = {}
        self._work_left: dict[str, int | None] = {}

    def forget(self, job_id: str) -> None:
        """Forgets a job."""
        for kept in (self._states, self._launched, self._work_left):
            kept.pop(job_id, None)

    def launch(self, job_id: str, generation: int, placement: Placement) -> None:
        """Starts every member. Idempotent."""
        if self._launched.get(job_id, 0) >= generation:
            return
        self._launched[job_id] = generation
        if job_id in self.by_job:
            self.contract_violations.append(f"{job_id}: generation {generation} starts while another one lives")
        uninformed = self._timeline.is_outdated
        for node in () if uninformed else placement.distinct():
            if problem := self._machines.closed_reason(node):
                self.contract_violations.append(f"{job_id}: starts on {node}, which is {problem}")
        requested = self._states[job_id].job
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
            begun=self._timeline.now,
            settled=self._timeline.now,
            needed=None if work is None else time_needed(work, self._costs, first=generation == 1),
            base_speed=NORMAL * job.members // requested.members,
        )
        self.by_job[job_id] = gang
        stale = None
        if uninformed:
            present = {node.name: node for node in self._machines.known().nodes}
            stale = find_stale_node(demands_of(job), placement, present, self._held_by_others(gang))
        if stale is not None:  # no member starts, and the first is reported as lost
            for member in sorted(gang.alive):
                gang.members.leave(member)
            gang.failed = True
            gang.members.end(0, end_of_stale_placement(stale.message))
            self._report_events(gang)
        else:
            self._start(gang)

    def _start(self, gang: Generation) -> None:
        if gang.script.start_error:
            for member in sorted(gang.alive):
                self.exit(gang, member, e.Exit(code=127, detail=f"{gang.script.start_error} on {gang.nodes[member]}"))
            return
        dead = {node for node in gang.nodes if self._machines.is_dead(node)}
        self.lose(gang, dead)
        if not dead:
            self._timeline.schedule(self._timeline.now + self._delays.start, partial(self._started, gang), FIRST)
        self.set_speed(gang)

    def _started(self, gang: Generation) -> None:
        if gang.alive and not gang.failed:
            for member in range(len(gang.nodes)):
                gang.members.start(member)
            self._report_events(gang)

    def _report_events(self, gang: Generation) -> None:
        for event in gang.members.take_events(self._timeline.now):
            self._timeline.report(JobEvent(gang.job_id, event))

    def set_speed(self, gang: Generation) -> None:
        """Sets the speed of a gang from now on and reschedules its end."""
        gang.settle(self._timeline.now)
        slowest = min(self._machines.speed(node) for node in gang.nodes)
        gang.speed = max(1, gang.base_speed * slowest // NORMAL)
        gang.plan += 1
        end = gang.ends_at()
        if end is not None:
            self._timeline.schedule(end + self._delays.start, partial(self._finish, gang, gang.plan), FIRST)

    def _finish(self, gang: Generation, plan: int) -> None:
        if plan != gang.plan or not gang.alive:
            return
        if (back := self._machines.unreachable_until(gang.nodes)) is not None:
            self._timeline.schedule(back, partial(self._finish, gang, plan))
            return
        gang.settle(self._timeline.now)
        for member in sorted(gang.alive):
            exit = gang.script.exit
            detail = exit.detail or f"member {member} on {gang.nodes[member]} ended"
            self.exit(gang, member, replace(exit, detail=detail))

    def exit(self, gang: Generation, member: int, exit: e.Exit) -> None:
        """Ends a member."""
        gang.members.end(member, exit, self._timeline.now)
        if not exit.ok:
            gang.settle(self._timeline.now)
            gang.failed = gang.failed or gang.stop_requested_at is None
            gang.plan += 1
        self._report_events(gang)

    def lose(self, gang: Generation, nodes: set[str]) -> None:
        """Ends, without a report, the members of a gang on these nodes."""
        lost = {member for member in gang.alive if gang.nodes[member] in nodes}
        if lost:
            gang.settle(self._timeline.now)
            for member in lost:
                gang.members.leave(member)
            gang.failed = True
            gang.plan += 1
            if not gang.alive and gang.stop_requested_at is not None:
                self._timeline.schedule(self._timeline.now, partial(self._finish_stop, gang))

    def stop(self, job_id: str, generation: int, grace: int) -> None:
        """Ends every member; answered by one GangGone, at once if nothing is alive."""
        gang = self.by_job.get(job_id)
        if gang is None or gang.number != generation:
            self._timeline.schedule(
                self._timeline.now, partial(self._timeline.report_once, JobEvent(job_id, e.GangGone(generation)))
            )
            return
        if gang.stop_requested_at is not None:
            return
        gang.settle(self._timeline.now)
        gang.stop_requested_at = self._timeline.now
        if not gang.alive:
            self._timeline.schedule(self._timeline.now, partial(self._finish_stop, gang))
            return
        delay = gang.script.end_delay if gang.script.obeys_stop else grace
        signal = SIGTERM if gang.script.obeys_stop and delay <= grace else SIGKILL
        self._timeline.schedule(self._timeline.now + min(delay, grace), partial(self._end_members, gang, signal), FIRST)

    def _end_members(self, gang: Generation, signal: int) -> None:
        back = self._machines.unreachable_until(gang.nodes[member] for member in gang.alive)
        if back is not None:
            self._timeline.schedule(back, partial(self._end_members, gang, signal))
            return
        for member in sorted(gang.alive):
            where = f"member {member} on {gang.nodes[member]}"
            self.exit(gang, member, e.Exit(signal=signal, detail=f"{where} ended by signal {signal}"))
        self._timeline.schedule(self._timeline.now, partial(self._finish_stop, gang))

    def _finish_stop(self, gang: Generation) -> None:
        if self.by_job.get(gang.job_id) is not gang:
            return
        del self.by_job[gang.job_id]
        cause = _cause_of(gang, self._states.get(gang.job_id))
        work = self._work_left[gang.job_id]
        if work is not None:
            kept = work if cause is EndCause.FINISHED else gang.saved_work(self._costs)
            self._work_left[gang.job_id] = max(0, work - kept)
        job = job_in_size(self._states[gang.job_id].job, gang.placement)
        self._on_run_end(gang.job_id, job, gang.placement, gang.begun, self._timeline.now, cause)
        gang.members.vanish()
        self._report_events(gang)

    def vanish(self, gang: Generation) -> None:
        """Ends every member at once, without a report of their ends."""
        self.lose(gang, set(gang.nodes))
        self._finish_stop(gang)

    def on_node(self, node: str) -> list[Generation]:
        """Returns the gangs with a living member on a node, by id."""
        gangs = (gang for gang in self.by_job.values() if any(gang.nodes[member] == node for member in gang.alive))
        return sorted(gangs, key=lambda gang: gang.job_id)

    def _held_by_others(self, gang: Generation) -> dict[str, Counter[str]]:
        """Returns the resources that all other gangs hold, by node."""
        others = (other for other in self.by_job.values() if other is not gang and other.alive)
        return resources_by_node((self._states[other.job_id].job, other.placement.nodes) for other in others)


def _cause_of(gang: Generation, state: JobState | None) -> EndCause:
    """Returns the cause of a run's end, from the state that the controller has committed."""
    target = state.status.target if state else None
    if target is Target.SUCCEED:
        return EndCause.FINISHED
    if state is not None and state.status.reason in ("WalltimeExceeded", "DeadlineExceeded"):
        return EndCause.KILLED
    return EndCause.LOST if gang.failed else EndCause.PREEMPTED
