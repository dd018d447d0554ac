"""The agents of one run of a gang: passes their reports to the core, to the status and to the events of the gang.

The rendezvous of these agents is `rendezvous`; `agent_registry` finds the gang of each agent that connects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from windlass.agent.rank_events import RankFailed, RanksSucceeded
from windlass.backends.kubernetes.agents.generation_state import pod_of_rank
from windlass.backends.kubernetes.agents.progress import rank_rows, stored_rank_rows, training_status
from windlass.backends.kubernetes.agents.rendezvous import Rendezvous, RendezvousCallbacks
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.run import Run
from windlass.backends.kubernetes.gangs.run_pods import generation_of
from windlass.backends.kubernetes.pods.pod_store import PodStore
from windlass.backends.kubernetes.status.event_correlation import EventRecord
from windlass.backends.kubernetes.status.events import EventRecorder
from windlass.backends.port import BackendEvent, JobEvent
from windlass.core.lifecycle.events import Exit, Recovered
from windlass.core.lifecycle.state_machine import step
from windlass.core.lifecycle.transitions import can_recover_in_place
from windlass.core.model.status import JobState

HANG, RESTARTED, GIVEN_UP = "Hang", "RanksRestarted", "AgentsGivenUp"
"""Reasons of events."""
_PROGRESS_INTERVAL_MS = 10_000
"""Milliseconds between two writes of a status in which only progress has changed."""
_RECOVERY_TIMEOUT_MS = 30_000
"""Milliseconds after which a restart is reported although no agent has confirmed that ranks run again."""


@dataclass(frozen=True, slots=True)
class BackendAccess:
    """The parts of the backend that agents' reports use. `mark_changed` lets the status of a gang be written."""

    pods: PodStore
    events: EventRecorder
    inject: Callable[[BackendEvent], None]
    mark_changed: Callable[[Gang], None]
    now: Callable[[], int]


@dataclass(frozen=True, slots=True)
class PendingRecovery:
    """A failure from which ranks recover: it is reported to the controller once they run again."""

    generation: int
    """The agents' own generation number that follows."""
    failed: RankFailed
    at: int

    def event(self, run: Run, duration: int) -> Recovered:
        """Returns the event for the controller; `duration` in ms."""
        exit = _exit(self.failed)
        detail = f"{exit.detail} in {self.failed.agent_id}"
        return Recovered(run.generation, self.generation, replace(exit, detail=detail), duration)


class GangAgents:
    """One gang, its present run, and the rendezvous of the agents in its pods. `secret`: see `Rendezvous`."""

    def __init__(self, gang: Gang, run: Run, backend: BackendAccess, secret: str) -> None:
        self.gang, self.run, self._backend = gang, run, backend
        callbacks = RendezvousCallbacks(
            may_restart=self._may_restart,
            restarted=self._report_restart,
            hang_detected=self._report_hang,
            closing=self.report_recovery,  # before its pods report their ends
        )
        first = max(run.generation, gang.status.agent_generation + 1)
        clock = asyncio.get_running_loop().time()
        self.rendezvous = Rendezvous(gang.pod_names(run), first, callbacks, clock, gang.job.restart, secret)
        self.given_up = False
        """Whether coordinating its agents has failed with an unexpected error."""
        self._written_at = 0
        self._pending: PendingRecovery | None = None
        self._expected: JobState | None = None
        """The state with failures that the controller was told of and has not committed yet."""

    @property
    def is_current(self) -> bool:
        """Whether the gang still has this run, and its pods are not being deleted."""
        return self.gang.run is self.run and not self.run.stopping

    def check_timeouts(self, clock: float) -> None:
        """Carries out what is due; `clock` is the time of the event loop in seconds."""
        for name in self.rendezvous.absent_members():
            if self._has_succeeded(name):
                self.rendezvous.handle(RanksSucceeded(name, self.rendezvous.state.generation), clock)
        self.rendezvous.check_timeouts(clock)
        if self._pending is not None and self._is_settled(self._pending):
            self.report_recovery()
        if self._backend.now() - self._written_at >= _PROGRESS_INTERVAL_MS:
            self._write_progress()

    def rank_rows(self) -> list[dict[str, Any]]:
        """Returns the present or last known activity of the ranks (`DataSource.ranks_seen`)."""
        return rank_rows(self.rendezvous.agents, self._backend.now()) or stored_rank_rows(self.gang.notes.training)

    def close(self) -> None:
        """Ends the rendezvous of a run that was replaced, or whose pods are being deleted."""
        self.report_recovery()
        self.rendezvous.close()

    def give_up(self, fault: Exception) -> None:
        """Stops coordinating the agents for this run: ranks continue, and a failure is a failure of the pod."""
        self.given_up = True
        self.rendezvous.close()
        note = f"its agents are led no more in this run, and ranks that fail end their pods: {fault!r}"
        self._announce(GIVEN_UP, "Lead", note)

    def report_recovery(self) -> None:
        """Reports that ranks run again after a failure, or would, had another event not intervened."""
        pending, self._pending = self._pending, None
        if pending is not None:
            agent = self.rendezvous.agents.get(pending.failed.agent_id)
            recovery = agent.recovery if agent is not None else None
            is_confirmed = recovery is not None and recovery.generation == pending.generation
            since_failure = self._backend.now() - pending.at
            duration = round(recovery.seconds * 1000) if recovery is not None and is_confirmed else since_failure
            self._backend.inject(JobEvent(self.gang.id, pending.event(self.run, duration)))

    def _may_restart(self, failed: RankFailed) -> bool:
        # a rank that has succeeded and left would be waited for indefinitely
        if any(self._has_succeeded(name) for name in self.gang.pod_names(self.run)):
            return False
        return can_recover_in_place(self._known_state, _exit(failed), self._backend.now())

    def _report_restart(self, generation: int, why: str, failed: RankFailed | None) -> None:
        if failed is None:
            note = f"{why}: ranks start again in their pods (generation {generation})"
            self._announce(RESTARTED, "Restart", note)
        else:
            self.report_recovery()
            now = self._backend.now()
            self._pending = PendingRecovery(generation, failed, now)
            self._expected, _ = step(self._known_state, self._pending.event(self.run, 0), now)
        self._write_progress()

    def _report_hang(self, rank: int, why: str) -> None:
        state = self.rendezvous.state
        pod = pod_of_rank(state, rank)
        node = next((member.node for member in state.present if member.id == pod), "")
        note = f"{pod} on node {node}: {why}" if pod else why
        self._announce(HANG, "Interrogate", f"{note}; ranks have been asked for their stacks")
        self._write_progress(lastHang=note)

    @property
    def _known_state(self) -> JobState:
        """The state of the gang with all known failures."""
        committed, expected = self.gang.state, self._expected
        return expected if expected is not None and _failures(expected) > _failures(committed) else committed

    def _has_succeeded(self, name: str) -> bool:
        """Tells whether a member's ranks succeeded without a leader: its agent did not wait to be dismissed."""
        pod = self._backend.pods.get(self.gang.reference.namespace, name)
        return pod is not None and pod.status.phase == "Succeeded" and generation_of(pod) == self.run.generation

    def _is_settled(self, pending: PendingRecovery) -> bool:
        """Tells whether a recovery can be reported: its agent has confirmed it, or its time is over."""
        agent = self.rendezvous.agents.get(pending.failed.agent_id)
        running = agent.recovery.generation if agent is not None and agent.recovery is not None else 0
        return running >= pending.generation or self._backend.now() - pending.at > _RECOVERY_TIMEOUT_MS

    def _announce(self, reason: str, action: str, note: str) -> None:
        self._backend.events.record(EventRecord(self.gang.reference, reason, action, note, self._backend.now()))

    def _write_progress(self, **more: str | int) -> None:
        """Writes the gang's progress into its status, if it has changed."""
        notes, now, generation = self.gang.notes, self._backend.now(), self.rendezvous.state.generation
        after = training_status(notes.training, self.rendezvous.telemetry, generation, now, **more)
        if after != notes.training and generation:
            notes.training, notes.needs_write, self._written_at = after, True, now
            self._backend.mark_changed(self.gang)


def _failures(state: JobState) -> int:
    return state.status.user_failures + state.status.infrastructure_failures


def _exit(failed: RankFailed) -> Exit:
    """Returns the end of a rank as the Exit of its member."""
    if failed.code < 0:
        return Exit(signal=-failed.code, detail=failed.reason)
    return Exit(code=failed.code, detail=failed.reason)
