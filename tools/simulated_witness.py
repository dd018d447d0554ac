"""Judges a simulated fault schedule without the core: it compares what the machines saw with the jobs' states.

It reads the submitted jobs, the commands as the machines received them, the ends that the machines reported, the
members that are alive on each node, and the committed states. It uses neither snapshots, ledger nor lifecycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from windlass.backends.port import BackendEvent, JobArrived, JobEvent
from windlass.backends.simulator.universe import Universe
from windlass.core.lifecycle import events as e
from windlass.core.model.elastic_size import job_in_size
from windlass.core.model.job import Job
from windlass.core.model.status import TERMINAL, JobState, Phase

_MILLI = 1000
_LEAST_MILLI_OF_SLICE = _MILLI // 7
"""No GPU has more than seven MIG instances, so each takes at least this part."""

_RETRIED_COMMITS_MS = 5_000
"""A walltime counts from the decision to start; a full disk delays the start itself, by one second a retry."""


class _Start(NamedTuple):
    generation: int
    at: int
    members: int


class EndStateWitness:
    """Collects the facts of one schedule. `violations`: what must not have happened."""

    def __init__(self, universe: Universe, submitted: Mapping[str, Job]) -> None:
        self.violations: list[str] = []
        self._universe, self._submitted = universe, submitted
        self._starts: dict[str, list[_Start]] = {job_id: [] for job_id in submitted}
        self._ends: dict[tuple[str, int], dict[int, e.Exit]] = {}
        """The reported ends by job and generation, then by member. Only the first of a member counts."""
        self._arrived: dict[str, None] = {}
        """The jobs that arrived, in order."""
        self._unreachable: set[str] = set()
        """Jobs that had a member on an unreachable node."""
        self._requests: set[tuple[str, type]] = set()
        self._ended: dict[str, tuple[Phase, str]] = {}
        """Phase and reason with which a job was first committed as ended."""

    # --- facts --------------------------------------------------------------------------------------------

    def observe_events(self, events: Iterable[BackendEvent]) -> None:
        """Takes note of the ends that machines report, and of the requests of users."""
        for event in events:
            match event:
                case JobEvent(job_id, e.MemberExited(generation, member, exit)):
                    self._ends.setdefault((job_id, generation), {}).setdefault(member, exit)
                case JobEvent(job_id, request):
                    self._requests.add((job_id, type(request)))
                case JobArrived(job_id):
                    self._arrived.setdefault(job_id)

    def observe_launch(self, job_id: str) -> None:
        """Takes note of a start, once by generation."""
        gang = self._universe.gangs.by_job.get(job_id)
        starts = self._starts[job_id]
        if gang is None or (starts and starts[-1].generation == gang.number):
            return
        if starts and gang.number < starts[-1].generation:
            self.violations.append(f"{job_id}: generation {gang.number} starts after {starts[-1].generation}")
        if job_id in self._ended:
            self.violations.append(f"{job_id} starts although it has ended: {self._ended[job_id]}")
        starts.append(_Start(gang.number, self._universe.timeline.now, len(gang.nodes)))

    def observe_commit(self, states: Iterable[JobState]) -> None:
        """Takes note of committed states: an end is final."""
        for state in states:
            end = (state.status.phase, state.status.reason)
            first = self._ended.get(state.id, end)
            if first != end:
                self.violations.append(f"{state.id} had ended as {first} and becomes {end}")
            if state.status.phase in TERMINAL:
                self._ended[state.id] = first

    def observe_nodes(self) -> None:
        """Adds up what the living members on each node were given, and notes which nodes are unreachable."""
        held: Counter[tuple[str, str]] = Counter()
        for gang in self._universe.gangs.by_job.values():
            if self._universe.machines.unreachable_until(gang.nodes) is not None:
                self._unreachable.add(gang.job_id)
            job = job_in_size(self._submitted[gang.job_id], gang.placement)
            roles = [role for role in job.roles for _ in gang.placement.nodes[role.name]]
            for member in gang.alive:
                for name, amount in roles[member].resources.items():
                    resource, milli = _in_milli(name, amount)
                    held[gang.nodes[member], resource] += milli
        capacity = {node.name: node.capacity for node in self._universe.machines.known().nodes}
        for (node, resource), amount in held.items():
            most = capacity.get(node, {}).get(resource, 0) * _MILLI
            if node in capacity and amount > most:
                self.violations.append(f"members on {node} have {amount} milli of {resource}, the node {most}")

    # --- the verdict --------------------------------------------------------------------------------------

    def end_violations(self) -> Iterator[str]:
        """Yields jobs that are lost, unknown, not ended, or ended for a reason that the machines did not see."""
        states = self._universe.states
        for job_id in sorted(self._submitted.keys() ^ states.keys()):
            yield f"{job_id} {'is lost' if job_id in self._submitted else 'was never submitted'}"
        for job_id, state in states.items():
            if state.status.phase not in TERMINAL:
                yield f"{job_id} never ends: {state.status.phase}"
            elif not self._is_true(state):
                yield f"{job_id} ended as {state.status.phase}, {state.status.reason}: no machine saw that"

    def _is_true(self, state: JobState) -> bool:
        """Tells whether the facts support the end of a job."""
        status, job, starts = state.status, self._submitted[state.id], self._starts[state.id]
        last = starts[-1] if starts else _Start(0, 0, 0)
        ends = list(self._ends.get((state.id, last.generation), {}).values())
        if status.phase is Phase.SUCCEEDED:
            return bool(starts) and sum(exit.ok for exit in ends) == last.members
        lasted = (status.finished_at or 0) - (starts[0].at if starts else 0) + _RETRIED_COMMITS_MS
        asked_to_end = self._requests & {(state.id, e.Cancel), (state.id, e.Kill)}
        lost = state.id in self._unreachable or sum(exit.ok for exit in ends) < last.members
        facts = {
            "ExitCode": any(exit.code for exit in ends),
            "Preempted": any(exit.code for exit in ends),
            "Signal": any(exit.signal for exit in ends),
            "Cancelled": bool(asked_to_end),
            "WalltimeExceeded": job.walltime is not None and bool(starts) and lasted >= job.walltime,
            "DeadlineExceeded": job.deadline is not None and bool(starts) and lasted >= job.deadline,
            "DependencyFailed": any(not self._has_succeeded_before(other.job_id, state.id) for other in job.after),
            "NodeLost": lost,
            "Lost": lost,
            "Misconfigured": not starts,
        }
        return facts.get(status.reason, False)

    def _has_succeeded_before(self, job_id: str, later: str) -> bool:
        """Tells whether a job arrived before another one, and has succeeded."""
        order = list(self._arrived)
        in_order = job_id in order and order.index(job_id) < order.index(later)
        return in_order and self._universe.states[job_id].status.phase is Phase.SUCCEEDED


def _in_milli(name: str, amount: int) -> tuple[str, int]:
    """Returns the resource of the node that an amount is taken from, and its thousandths."""
    if name == "gpu-milli":
        return "gpu", amount
    if name.startswith("mig-"):
        return "gpu", amount * _LEAST_MILLI_OF_SLICE
    return name, amount * _MILLI
