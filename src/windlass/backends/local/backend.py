"""The local backend: `backends.port.Backend` with processes on this machine.

The order of a turn: reports of the supervisor and requests of the API become events (`wait`); the controller's changes
are written together with the backend's notes (`commit`), and only then acknowledged to the supervisor; then commands
are sent (`perform`). The supervisor repeats a report that was not committed; the controller repeats a command that was
committed and not carried out.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from windlass.backends import inbox
from windlass.backends.local import folder_lock, reservation_notes, submission_origins
from windlass.backends.local.client_watch import ClientWatch
from windlass.backends.local.clock import SYSTEM, BootOffset, Clock, ClockSources, boot_offset
from windlass.backends.local.launched_gangs import GangCommit, LaunchedGangs
from windlass.backends.local.nodes import LocalCluster
from windlass.backends.local.paths import StatePaths, prepare_folder, state_id, write_state_id
from windlass.backends.local.schedule_records import ScheduleRecord, record_text
from windlass.backends.local.sealed_text import checksum_of
from windlass.backends.local.state_store import Notes, StateStore, SubmissionOrigin, open_store
from windlass.backends.local.supervisor_start import SupervisorLink, start_supervisor
from windlass.backends.port import BackendError, BackendEvent, Changes, JobArrived, JobEvent, Recovery
from windlass.core.lifecycle.commands import Command, Forget, Launch, Stop
from windlass.core.lifecycle.events import Cancel
from windlass.core.model.queue import PastUsage
from windlass.core.model.reasons import Verdict
from windlass.core.model.reservation import Reservation
from windlass.core.model.status import TERMINAL, JobState

_PAST_USAGE = "past usage"
_MARK = "mark"
_CLOCK, _CLOCK_CHECKSUM = "clock", "clock checksum"
_RUN_LINGER = 2.0
"""Seconds that jobs of a `windlass run` outlive a controller that was killed."""


@dataclass(slots=True)
class _PendingCommit:
    """A commit that is repeated unchanged until it succeeds."""

    changes: Changes
    gangs: GangCommit
    promises: list[asyncio.Future[None]]


@dataclass(slots=True)
class _Unwritten:
    """Notes of the backend itself, and promises, since the last commit began."""

    verdicts: dict[str, tuple[int, Verdict]] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    """Forgotten jobs whose logs were removed."""
    promises: list[asyncio.Future[None]] = field(default_factory=list)


class LocalBackend:
    """Processes on this machine, controlled from one state folder.

    `held`: the folder's lock, acquired here if None. `link`: a supervisor started beforehand. `environment`: the base
    of the ranks' environment when the submission did not bring its client's. `on_trouble` is called with messages for
    people that belong to no job. Raises HeldError, CorruptError, BackendError.
    """

    def __init__(
        self,
        state: Path,
        cluster: LocalCluster,
        *,
        kind: folder_lock.Kind,
        held: folder_lock.FolderLock | None = None,
        link: SupervisorLink | None = None,
        environment: Mapping[str, str] | None = None,
        on_trouble: Callable[[str], None] = lambda _text: None,
        sources: ClockSources = SYSTEM,
    ) -> None:
        self.paths: StatePaths = prepare_folder(state)
        self.cluster = cluster
        self._lock = held or folder_lock.acquire_lock(self.paths, kind)
        try:
            self.store: StateStore = open_store(self.paths)
            self._clock = _keep_clock(self.store, sources)
            _keep_mark(self.store, self.paths)
            link = link or start_supervisor(self.paths)
        except BackendError:
            if held is None:
                self._lock.release()
            raise
        self.reservations = reservation_notes.read_reservations(self.store)
        """Reservations made at run time; those of the cluster file are in `cluster`."""
        self._living: set[str] = set()
        """Jobs that have not ended."""
        self._inbox = inbox.Inbox()
        self._clients = ClientWatch(
            lambda job_id: self._inbox.put(JobEvent(job_id, Cancel(by="the end of its terminal")))
        )
        self._origins: dict[str, SubmissionOrigin] = {}
        self._unwritten = _Unwritten()
        self._pending: _PendingCommit | None = None
        self._next_number = max(self.store.number("next_number") or 1, self.store.last_number() + 1)
        self._gangs = LaunchedGangs(
            self.paths,
            self.store,
            cluster,
            self._inbox,
            link,
            {"linger": None if kind == "up" else _RUN_LINGER, "offset": self._clock.offset},
            environment=dict(os.environ if environment is None else environment),
            on_trouble=on_trouble,
        )

    # --- the port ------------------------------------------------------------------------------------

    def now(self) -> int:
        """Returns milliseconds since the Unix epoch; never goes back."""
        return self._clock.now()

    def recover(self) -> Recovery:
        """Returns every job that has not ended or has a ttl, and restores the gangs that should be alive."""
        states = self.store.recoverable()
        self._note_living(states)
        self._gangs.recover(states)
        for job_id, owner in submission_origins.clients_of_living_jobs(self.store).items():
            self._clients.add(job_id, owner)
        self._unwritten.removed += _remove_logs(self.paths, self.store.unremoved())
        kept = self.store.decoded(_PAST_USAGE, dict[str, PastUsage]) or {}
        return Recovery(self.cluster.changed(self.reservations), tuple(states), kept)

    def finished(self, job_id: str) -> JobState | None:
        """Returns a job that has ended, by id."""
        state = self.store.job(job_id)
        return state if state is not None and state.status.phase in TERMINAL else None

    async def wait(self, until: int | None) -> Sequence[BackendEvent]:
        """Returns events of the supervisor and of the API, or none at `until`."""
        self._gangs.supervisor.attach()
        self._clients.watch()
        if self._pending is None:  # the last turn has ended, and changed nothing that had to be committed
            inbox.resolve(self._unwritten.promises)
            self._unwritten.promises.clear()
        await self._inbox.wait(None if until is None else (until - self.now()) / 1000)
        events, promises = self._inbox.take()
        self._unwritten.promises += promises
        return events

    async def commit(self, changes: Changes) -> Mapping[str, str]:
        """Writes the turn with everything noted since the last one. Raises BackendError."""
        if self._pending is None:
            since, self._unwritten = self._unwritten, _Unwritten()
            self._note_living(changes.states)
            gangs = self._gangs.begin_commit(changes)
            notes = gangs.notes
            notes.verdicts, notes.removed = since.verdicts, since.removed
            notes.origins = {s.id: self._origins.pop(s.id) for s in changes.states if s.id in self._origins}
            if changes.states:
                notes.meta["next_number"] = str(self._next_number)
            if changes.past_usage:
                notes.meta[_PAST_USAGE] = msgspec.json.encode(changes.past_usage).decode()
            self._pending = _PendingCommit(changes, gangs, since.promises)
        pending = self._pending
        if pending.changes is not changes:  # else reports of this turn would be acknowledged with the other
            raise BackendError("the turn before this one could not be written yet")
        self.store.commit(changes, pending.gangs.notes)
        self._pending = None
        # durable from here on
        for state in changes.states:
            if state.status.phase in TERMINAL:
                self._living.discard(state.id)
                self._clients.remove(state.id)
        self._gangs.end_commit(pending.gangs)
        inbox.resolve(pending.promises)
        return {}

    def _note_living(self, states: Iterable[JobState]) -> None:
        self._living |= {state.id for state in states if state.status.phase not in TERMINAL}

    def perform(self, commands: Sequence[Command]) -> None:
        """Sends commands to the supervisor, or removes logs."""
        for command in commands:
            match command:
                case Launch():
                    self._gangs.launch(command)
                case Stop():
                    self._gangs.stop(command)
                case Forget(job_id):
                    self._unwritten.removed += _remove_logs(self.paths, [job_id])

    # --- for the API ---------------------------------------------------------------------------------

    @property
    def next_number(self) -> int:
        """The number of the next job."""
        return self._next_number

    def reserve(self, count: int = 1) -> int:
        """Returns the first of `count` numbers for jobs about to be injected."""
        first = self._next_number
        self._next_number += count
        return first

    def inject(self, event: BackendEvent, origin: SubmissionOrigin | None = None) -> asyncio.Future[None]:
        """Passes an event to the controller. The future is done when its consequences are durable.

        `origin` comes with a `JobArrived`: the client's environment, and the client that the job must not outlive.
        """
        promise = asyncio.get_running_loop().create_future()
        if isinstance(event, JobArrived) and origin is not None:
            self._origins[event.job_id] = origin
            if origin.owner:
                self._clients.add(event.job_id, origin.owner)
        self._inbox.put(event, promise=promise)
        return promise

    def set_reservations(self, reservations: tuple[Reservation, ...]) -> asyncio.Future[None]:
        """Replaces the reservations made at run time; they are on disk when this returns. Raises BackendError."""
        self.store.note(reservation_notes.reservation_note(reservations))
        self.reservations = reservations
        return self.inject(self.cluster.changed(reservations))

    def set_schedules(self, records: Mapping[str, ScheduleRecord | None]) -> None:
        """Stores schedules by name, all or none, and deletes those of None; it is on disk then. Raises BackendError."""
        texts = {name: None if record is None else record_text(record) for name, record in records.items()}
        self.store.note(Notes(schedules=texts))

    def forget_ended(self, job_ids: Sequence[str]) -> None:
        """Removes ended jobs, which the controller does not know any more, and their logs. Raises BackendError."""
        self.store.commit(Changes(forgotten=tuple(job_ids)), Notes())
        self._unwritten.removed += _remove_logs(self.paths, job_ids)

    def note_verdicts(self, verdicts: Mapping[str, Verdict]) -> None:
        """Stores, with the next commit, the reasons of waiting jobs, for `why` without a controller."""
        now = self.now()
        self._unwritten.verdicts.update((job_id, (now, verdict)) for job_id, verdict in verdicts.items())

    def has_living_jobs(self) -> bool:
        """Tells whether any job has not ended."""
        return bool(self._living)

    def close(self, *, end: bool = False) -> None:
        """Releases the folder. `end`: ends the supervisor with every process; else they continue."""
        self._clients.close()
        self._gangs.supervisor.close(end=end)
        self.store.close()
        self._lock.release()


def _remove_logs(paths: StatePaths, job_ids: Sequence[str]) -> Sequence[str]:
    """Removes the logs of forgotten jobs. Returns these jobs."""
    for job_id in job_ids:
        import shutil  # noqa: PLC0415 - few runs forget a job

        shutil.rmtree(paths.job_logs(job_id), ignore_errors=True)
    return job_ids


def _keep_mark(store: StateStore, paths: StatePaths) -> None:
    """Restores a damaged file with the folder's mark from its copy in the database.

    Processes that an earlier supervisor has left are found by the mark.
    """
    mark = state_id(paths)
    stored, _, checksum = (store.meta(_MARK) or "").partition(" ")
    if not stored or checksum != checksum_of(stored):
        store.note(Notes(meta={_MARK: f"{mark} {checksum_of(mark)}"}))
    elif mark != stored:
        write_state_id(paths, stored)


def _keep_clock(store: StateStore, sources: ClockSources) -> Clock:
    """Returns the clock of this boot. A damaged offset is as good as none: the wall clock gives a new one."""
    stored = store.meta(_CLOCK) or ""
    checksum = store.meta(_CLOCK_CHECKSUM) or checksum_of(stored)
    boot_id, _, offset = stored.rpartition(" ") if checksum == checksum_of(stored) else ("", "", "")
    kept = boot_offset(sources, BootOffset(boot_id, int(offset)) if boot_id else None, store.last_time())
    if (text := f"{kept.boot_id} {kept.offset}") != stored:
        store.note(Notes(meta={_CLOCK: text, _CLOCK_CHECKSUM: checksum_of(text)}))
    return Clock(sources, kept.offset)
