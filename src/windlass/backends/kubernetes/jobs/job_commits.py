"""Commits the controller's states into the objects of jobs, and carries out what follows from a written state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.jobs.gang_controller import GangController
from windlass.backends.kubernetes.jobs.job_reader import JobReader
from windlass.backends.kubernetes.jobs.job_specs import JobSpecs
from windlass.backends.kubernetes.jobs.run_control import RunControl
from windlass.backends.kubernetes.status import state_writes
from windlass.backends.kubernetes.status.commit_failures import failures_of_jobs
from windlass.backends.kubernetes.status.event_correlation import NORMAL, EventRecord
from windlass.backends.kubernetes.status.events import (
    FIELDS_IGNORED,
    NETWORK_CHOSEN,
    NOT_WRITTEN,
    RECOVERED,
    STATE_REPLACED,
    EventRecorder,
)
from windlass.backends.kubernetes.status.job_announcer import JobAnnouncer
from windlass.backends.kubernetes.status.redaction import MessageRedaction
from windlass.backends.kubernetes.status.status_writer import status_of
from windlass.backends.port import Transition
from windlass.core.model.status import TERMINAL, JobState, Phase
from windlass.jobs.kubernetes.pods.network_pods import chosen_networks

_AT_ONCE = 64
"""Maximum of concurrent writes: half of the client's connections, so that none waits for one while its time passes."""
_NOT_WRITTEN_NOTE = "its state cannot be written, and no command for it is carried out until then"


@dataclass(frozen=True, slots=True)
class JobCommits:
    """Writer of job objects: commits states, and deletes objects whose time to live is over.

    `recount` counts a pod that the controller no longer accounts for.
    """

    connection: Connection
    specs: JobSpecs
    reader: JobReader
    gangs: GangController
    runs: RunControl
    redaction: MessageRedaction
    announcer: JobAnnouncer
    recount: Callable[[Pod], None]
    now: Callable[[], int]
    on_trouble: Callable[[str], None]
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def write_all(self, states: Iterable[JobState], forgotten: Sequence[str]) -> Mapping[str, str]:
        """Writes states and deletes forgotten jobs. Returns the jobs whose write failed, each with the reason.

        Raises BackendError if nothing could be written.
        """
        own = [(gang, state) for state in states if (gang := self.runs.store.get(state.id)) is not None]
        for gang, state in own:  # from here on it takes no spec that this state does not take
            gang.decided = state.status
        jobs = [gang.id for gang, _ in own] + list(forgotten)
        writes = [self.write(gang, state) for gang, state in own]
        removals = [self.remove(job_id) for job_id in forgotten]
        errors = await asyncio.gather(*writes, return_exceptions=True)
        # a job with no time to live ends and is forgotten in one turn: its end is written first
        errors += await asyncio.gather(*removals, return_exceptions=True)
        return await failures_of_jobs(self.connection, list(zip(jobs, errors, strict=True)))

    async def write(self, gang: Gang, state: JobState) -> None:
        """Writes a state and the rest of the status. Raises ApiError, Unreachable."""
        status = self.redaction.status(state.status, gang.reference.namespace)
        phase, state = status.phase, replace(state, status=status)
        async with self._slots:
            fields = status_of(gang, state.status, self.now())
            if await state_writes.write_state(self.connection, gang, state, fields):
                self.runs.parts.monitor.faults.note(gang.reference, STATE_REPLACED)
        self.announcer.announce(gang)
        if gang.notes.not_written:
            gang.notes.not_written, gang.notes.needs_write = "", True
        gang.decided = None
        self.specs.apply_requested(gang)
        if phase is Phase.SUSPENDED:
            self.gangs.delete_pods(gang)
        if gang.run is not None and gang.run.gone and state.status.is_gone and phase not in TERMINAL:
            gang.run = None
            self.runs.parts.monitor.placements.release(gang.id)
        if phase in (*TERMINAL, Phase.SUSPENDED):
            self.runs.standby.discard(gang)
        if phase in TERMINAL:
            for pod in self.gangs.clean_up(gang):
                self.recount(pod)
            if gang.version.gone:
                self.reader.close(gang)
        self.runs.changed.mark(gang)

    async def remove(self, job_id: str) -> None:
        """Deletes the object of a job whose time to live is over, and its dependents; of some kinds only the pods.

        Raises ApiError, Unreachable.
        """
        gang = self.runs.store.get(job_id)
        if gang is None or gang.status.phase not in TERMINAL:  # another job has that name by now
            return
        if gang.parsed.run_policy.ttl_keeps_job:
            self.gangs.delete_pods(gang)
            return
        async with self._slots:
            is_deleted = await state_writes.delete_object(self.connection, gang, self.on_trouble)
        if is_deleted:
            self.announcer.announce_removal(gang)
            self.reader.close(gang)

    def record_failures(self, failures: Mapping[str, str], events: EventRecorder) -> None:
        """Reports for each job that its state could not be written, in an Event: its object cannot show it."""
        for job_id, error in failures.items():
            gang = self.runs.store.get(job_id)
            if gang is not None and gang.notes.not_written != error:
                gang.notes.not_written = error
                events.record(
                    EventRecord(gang.reference, NOT_WRITTEN, "Commit", f"{_NOT_WRITTEN_NOTE}: {error}", self.now())
                )

    def record(self, transitions: Iterable[Transition], events: EventRecorder) -> None:
        """Records an Event for each failure that agents recovered from, and for fields of a new job without effect.

        The network that a new job with the profile `auto` gets has an Event too.

        The Events of a job's conditions are recorded when these are written.
        """
        for each in transitions:
            if (gang := self.runs.store.get(each.job_id)) is None:
                continue
            if each.event == RECOVERED:
                events.record(EventRecord(gang.reference, RECOVERED, each.event, each.message, each.at))
            if each.before == Phase.CREATED and (ignored := "; ".join(gang.parsed.warnings)):
                events.record(EventRecord(gang.reference, FIELDS_IGNORED, "Read", ignored, each.at))
            if each.before == Phase.CREATED and (network := chosen_networks(gang.parsed)):
                events.record(EventRecord(gang.reference, NETWORK_CHOSEN, "Read", network, each.at, NORMAL))
