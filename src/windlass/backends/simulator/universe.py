"""The simulated cluster: its clock, its nodes and their faults, and the gangs that run on them.

It outlives every controller.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from windlass.backends.port import ClusterChanged
from windlass.backends.simulator.faults import Fault, FaultKind
from windlass.backends.simulator.machines import Machines
from windlass.backends.simulator.progress import Costs
from windlass.backends.simulator.script import Delays
from windlass.backends.simulator.simulated_gangs import SIGKILL, RunEndCallback, ScriptOf, SimulatedGangs
from windlass.backends.simulator.timeline import Timeline
from windlass.core.lifecycle import events as e
from windlass.core.model.status import JobState


class Universe:
    """A simulated cluster, and its faults."""

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
        self.states: dict[str, JobState] = {}
        """Job states as committed."""
        self.timeline = Timeline(start)
        self.machines = Machines(cluster)
        self._delays = delays or Delays()
        self.gangs = SimulatedGangs(
            self.timeline, self.machines, self.states, script_of, costs or Costs(), self._delays, on_run_end
        )

    def declare(self, cluster: ClusterChanged) -> None:
        """Replaces nodes, queues and policy; nodes that are missing are removed, with everything that ran there."""
        self.machines.declare(cluster)
        names = {node.name for node in cluster.nodes}
        for gang in list(self.gangs.by_job.values()):
            self.gangs.lose(gang, set(gang.nodes) - names)
        self.timeline.report(self.machines.known())

    def schedule_faults(self, faults: Iterable[Fault]) -> None:
        """Schedules faults."""
        for fault in faults:
            self.timeline.schedule(fault.at, partial(self._begin_fault, fault))

    def _begin_fault(self, fault: Fault) -> None:
        match fault.kind:
            case FaultKind.NODE:
                self._kill_node(fault, self._delays.detect)
            case FaultKind.RECLAIM:
                self.machines.close(fault, "is being reclaimed")
                self.timeline.report(self.machines.known())
                self.timeline.schedule(self.timeline.now + fault.notice, partial(self._kill_node, fault, 0))
            case FaultKind.UNREACHABLE:
                self.machines.cut_off(fault)
                self.timeline.report(self.machines.known())
                self.timeline.schedule(fault.until, partial(self._end_fault, fault))
            case FaultKind.GPU:
                self.machines.close(fault, "Xid 79")
                self.timeline.report(self.machines.known())
                self._kill_rank(fault.node)
                self.timeline.schedule(fault.until, partial(self._end_fault, fault))
            case FaultKind.RANK:
                self._kill_rank(fault.node)
            case FaultKind.GANG:
                self._vanish_gang(fault.node)
            case FaultKind.SLOW:
                self.machines.slow(fault)
                self._update_speeds(fault.node)
                self.timeline.schedule(fault.until, partial(self._end_fault, fault))

    def _kill_node(self, fault: Fault, detect: int) -> None:
        self.machines.kill(fault)
        for gang in self.gangs.on_node(fault.node):
            self.gangs.lose(gang, {fault.node})
        self.timeline.schedule(self.timeline.now + detect, partial(self._notice, fault))
        self.timeline.schedule(max(fault.until, self.timeline.now + detect + 1), partial(self._end_fault, fault))

    def _notice(self, fault: Fault) -> None:
        self.machines.notice(fault)
        self.timeline.report(self.machines.known())

    def _end_fault(self, fault: Fault) -> None:
        before = self.machines.known()
        self.machines.end_fault(fault)
        if self.machines.known() != before:
            self.timeline.report(self.machines.known())
        self._update_speeds(fault.node)

    def _kill_rank(self, node: str) -> None:
        gang = next((gang for gang in self.gangs.on_node(node) if gang.stop_requested_at is None), None)
        if gang is not None:
            member = min(member for member in gang.alive if gang.nodes[member] == node)
            self.gangs.exit(gang, member, e.Exit(signal=SIGKILL, detail=f"member {member} on {node} was killed"))

    def _vanish_gang(self, node: str) -> None:
        gang = next((gang for gang in self.gangs.on_node(node) if gang.stop_requested_at is None), None)
        if gang is not None:
            self.gangs.vanish(gang)

    def _update_speeds(self, node: str) -> None:
        for gang in self.gangs.on_node(node):
            self.gangs.set_speed(gang)
