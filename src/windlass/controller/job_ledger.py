"""Updates of the ledger that follow from the states of jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from windlass.core.ledger import Ledger
from windlass.core.model.gang import pending_of, running_of, short_roles
from windlass.core.model.job import Job
from windlass.core.model.status import JobState, Phase, Status

_NOT_WRITTEN = "its state cannot be written at present"


class JobLedger:
    """Keeps the pending and the running gangs of the ledger equal to the states of jobs."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._late: set[str] = set()
        """Jobs to update before the next plan; their changes alone need no new plan."""

        self._uncommitted: frozenset[str] = frozenset()

    def set_uncommitted(self, jobs: Collection[str], states: Mapping[str, JobState]) -> None:
        """Keeps the queued ones of these jobs from being admitted, and no others."""
        changed = self._uncommitted.symmetric_difference(jobs)
        self._uncommitted = frozenset(jobs)
        for job_id in sorted(changed):
            state = states.get(job_id)
            if state is not None and state.status.phase is Phase.QUEUED:
                self.update(state)

    def update(self, state: JobState, before: JobState | None = None) -> None:
        """Updates a job whose state was `before`; None: the ledger has it in another form, or not at all."""
        if before is not None and _same_to_scheduler(before.status, state.status, state.job):
            if _is_other_victim(before.status, state.status):
                self._late.add(state.id)
            return
        status = state.status
        self._late.discard(state.id)
        if status.phase is Phase.QUEUED:
            self._ledger.release(state.id)
            gang = pending_of(state)
            self._ledger.add_pending(replace(gang, hold=_NOT_WRITTEN) if state.id in self._uncommitted else gang)
        else:
            self._ledger.remove_pending(state.id)
            if status.placement is None:
                self._ledger.release(state.id)
            else:
                self._ledger.hold(running_of(state, status.placement))

    def update_late(self, states: Mapping[str, JobState]) -> None:
        """Updates the jobs whose changes needed no new plan. Call this before a plan is made."""
        for job_id in sorted(self._late):
            state = states.get(job_id)
            if state is not None and state.status.placement is not None:
                self._ledger.hold(running_of(state, state.status.placement))
        self._late.clear()


def _same_to_scheduler(before: Status, after: Status, job: Job) -> bool:
    """Whether no change can let a gang start, or grow."""
    if _waiting_or_holding(before) != _waiting_or_holding(after):
        return False
    return before.phase is after.phase or after.placement is None or not short_roles(job, after.placement)


def _waiting_or_holding(status: Status) -> tuple[object, ...]:
    waits = (status.phase is Phase.QUEUED, status.waits_for, status.not_before, status.queued_at)
    avoids = (status.avoided_nodes, status.faulty_nodes)
    # a gang that waits for the nodes of an unevictable gang needs other victims
    return (*waits, *avoids, status.placement, status.resize_to, status.unevictable_until)


def _is_other_victim(before: Status, after: Status) -> bool:
    """Whether the gang is being stopped, nears its end, or has saved its work: the choice of victims depends on it."""
    old = before.target, before.saved_at, before.succeeded_members > 0
    return old != (after.target, after.saved_at, after.succeeded_members > 0)
