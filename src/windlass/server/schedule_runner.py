"""Carries out the schedules of a state folder: starts runs that are due, and removes runs beyond the history limits.

A run and the decision that started it are one commit. A daemon that is killed at any time therefore finds either both
or neither, and no due time starts a run twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from windlass.backends.event_timeout import wait_for_event
from windlass.backends.local.backend import LocalBackend
from windlass.backends.local.schedule_records import ScheduleRecord, read_schedules, record_text
from windlass.backends.local.state_store import SubmissionOrigin
from windlass.backends.port import BackendError, Changes, JobEvent
from windlass.controller.controller import Controller
from windlass.controller.observer import Observer
from windlass.core.lifecycle.events import Cancel
from windlass.core.model.status import TERMINAL, JobState, Phase, Target
from windlass.jobs.description.submission import Submission
from windlass.jobs.kubernetes.labels import SCHEDULE, SCHEDULED_AT
from windlass.jobs.schedules.cron_times import format_time
from windlass.jobs.schedules.due_runs import DueDecision, decide, next_due, note, suspend
from windlass.jobs.schedules.run_history import EndedRun, select_surplus
from windlass.jobs.schedules.schedule import NoteKind, ScheduleStatus
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.local_data_source import resolve_name
from windlass.server.submission_request import NumberedJobs, SubmissionRequest, number_jobs

_LONGEST_SLEEP_S = 30.0
"""Timers stand still while a machine sleeps, so the clock is read again after this time."""
_RETRY_S = 1.0
"""Wait after a schedule that could not be carried out, for example because the disk was full."""
_MAX_ENDED = 10_000
"""Ended jobs of a name that are searched for runs of its schedule."""


class ScheduleRunner(Observer):
    """The schedules of one state folder. `say` receives messages about schedules that cannot be carried out."""

    def __init__(self, controller: Controller, backend: LocalBackend, say: Callable[[str], None]) -> None:
        self._controller, self._backend, self._say = controller, backend, say
        self._records = {each.name: each for each in read_schedules(backend.store, backend.paths.database)}
        self._changed = asyncio.Event()
        self.lock = asyncio.Lock()
        """Decisions and changes by users are made one at a time: each is durable before the next."""
        self._told: dict[str, str] = {}
        self._is_paused = False

    # --- what the API calls --------------------------------------------------------------------------

    def __iter__(self) -> Iterator[ScheduleRecord]:
        """Yields all schedules, by name."""
        return iter(sorted(self._records.values(), key=lambda record: record.name))

    def get(self, name: str) -> ScheduleRecord | None:
        """A schedule by its name."""
        return self._records.get(name)

    def require(self, name: str) -> ScheduleRecord:
        """A schedule by its name. Raises ApiError NO_SUCH_JOB."""
        record = self._records.get(name)
        if record is None:
            fix = "windlass queue --schedules lists all schedules"
            raise ApiError(ErrorCode.NO_SUCH_JOB, f"there is no schedule {name[:60]!r}", fix)
        return record

    def runs(self, name: str) -> list[JobState]:
        """Runs of a schedule that have not ended, oldest first."""
        states = [state for state in self._controller.states.values() if state.job.labels.get(SCHEDULE) == name]
        living = [state for state in states if state.status.phase not in TERMINAL]
        return sorted(living, key=lambda state: state.number)

    def add(self, records: Sequence[ScheduleRecord]) -> None:
        """Adds new schedules, all or none; the caller holds `lock`. Raises BackendError."""
        added = {record.name: record for record in records}
        self._backend.set_schedules(added)
        self._records |= added
        self._changed.set()

    async def remove(self, name: str) -> None:
        """Deletes a schedule; its runs go on. Raises BackendError."""
        async with self.lock:
            self._backend.set_schedules({name: None})
            self._records.pop(name, None)

    async def suspend(self, name: str, *, suspended: bool) -> None:
        """Suspends or resumes a schedule. Raises ApiError, BackendError."""
        async with self.lock:
            record = self.require(name)
            if suspended:
                is_active, now = bool(self.runs(name)), self._backend.now()
                status = suspend(record.schedule, record.status, is_active=is_active, now=now)
            else:  # times of the suspension that were not decided yet pass before its end
                status = replace(self._decide(record).status, suspended=False)
            self._save(record, status)
        self._changed.set()

    async def pause(self) -> None:
        """Decides nothing until `resume`; what becomes due stays due."""
        async with self.lock:
            self._is_paused = True

    def resume(self) -> None:
        """Decides again."""
        self._is_paused = False
        self._changed.set()

    async def start_now(self, name: str) -> list[str]:
        """Starts a run at once, whatever the policy. Returns its id. Raises ApiError, BackendError."""
        async with self.lock:
            record = self.require(name)
            batch = self._number(record, None)
            text = f"{batch.ids[0]} was started by a user"
            status = note(record.status, self._backend.now(), NoteKind.STARTED, text)
            await self._start(record, status, batch)
            return batch.ids

    # --- the observer --------------------------------------------------------------------------------

    def on_commit_end(self, changes: Changes) -> None:
        """The end of a run may start the next one."""
        if any(SCHEDULE in state.job.labels and state.status.phase in TERMINAL for state in changes.states):
            self._changed.set()

    # --- the loop ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Carries out all schedules until cancelled."""
        while True:
            self._changed.clear()
            all_done = await self.advance_all()
            await wait_for_event(self._changed, self._sleep_s() if all_done else _RETRY_S)

    async def advance_all(self) -> bool:
        """Carries out what is due now. Returns whether every schedule could be carried out."""
        return all([await self._advance_contained(name) for name in list(self._records)])

    def _sleep_s(self) -> float:
        times = [next_due(record.schedule, record.status) for record in self._records.values()]
        first = min((time for time in times if time is not None), default=None)
        if first is None:
            return _LONGEST_SLEEP_S
        return max(0.0, min(_LONGEST_SLEEP_S, (first - self._backend.now()) / 1000))

    async def _advance_contained(self, name: str) -> bool:
        """Advances one schedule. An error is told once, and stops this schedule alone until the next turn."""
        try:
            async with self.lock:
                if name in self._records and not self._is_paused:
                    await self._advance(self._records[name])
                    self._remove_surplus(self._records[name])
        except Exception as error:  # noqa: BLE001 - the other schedules go on
            text = str(error) if isinstance(error, BackendError) else f"{type(error).__name__}: {error}"
            if self._told.get(name) != text:
                self._told[name] = text
                self._say(f"schedule {name}: {text}")
            return False
        self._told.pop(name, None)
        return True

    async def _advance(self, record: ScheduleRecord) -> None:
        """Carries out one decision."""
        decision = self._decide(record)
        if decision.stops_active:
            self._stop_active(record)
        if decision.start is None:
            if decision.status != record.status:
                self._save(record, decision.status)
            return
        now, time = self._backend.now(), format_time(decision.start, record.schedule.time_zone)
        if no := self._controller.refusal(record.submission.job):
            status = replace(decision.status, last_run=record.status.last_run)
            text = f"{time}: the job can never run here: {no.message}"
            self._save(record, note(status, now, NoteKind.REFUSED, text))
            return
        batch = self._number(record, decision.start)
        status = note(decision.status, now, NoteKind.STARTED, f"{batch.ids[0]} for {time}")
        await self._start(record, status, batch)

    def _decide(self, record: ScheduleRecord) -> DueDecision:
        is_active = bool(self.runs(record.name))
        return decide(record.schedule, record.status, is_active=is_active, now=self._backend.now())

    def _stop_active(self, record: ScheduleRecord) -> None:
        by = f"schedule {record.name}, for its next run"
        for state in self.runs(record.name):
            if state.status.target is not Target.FAIL:
                self._backend.inject(JobEvent(state.id, Cancel(by=by)))

    def _number(self, record: ScheduleRecord, time: int | None) -> NumberedJobs:
        """The jobs of one run, with their ids."""
        request = SubmissionRequest((_run_of(record, time),), record.environment)
        known = partial(resolve_name, self._backend.store)
        batch = number_jobs(request, self._backend.next_number, known)
        self._backend.reserve(1)
        return batch

    async def _start(self, record: ScheduleRecord, status: ScheduleStatus, batch: NumberedJobs) -> None:
        """Submits a run together with the new status; both are durable when this returns."""
        after = replace(record, status=status)
        plain = SubmissionOrigin(record.environment)
        origins = [plain] * (len(batch.jobs) - 1) + [plain._replace(schedules={record.name: record_text(after)})]
        promises = [self._backend.inject(*each) for each in zip(batch.jobs, origins, strict=True)]
        await asyncio.gather(*promises)
        self._records[record.name] = after

    def _save(self, record: ScheduleRecord, status: ScheduleStatus) -> None:
        after = replace(record, status=status)
        self._backend.set_schedules({record.name: after})
        self._records[record.name] = after

    def _remove_surplus(self, record: ScheduleRecord) -> None:
        """Removes ended runs beyond the limits; those with a ttl are removed at its end."""
        named = self._backend.store.jobs(name=[record.name], phases=TERMINAL, limit=_MAX_ENDED)
        ended = [s for s in named if s.job.labels.get(SCHEDULE) == record.name and s.id not in self._controller.states]
        living = {state.number for state in self.runs(record.name)}
        runs: dict[int, list[JobState]] = {}
        for state in ended:
            if state.number not in living:
                runs.setdefault(state.number, []).append(state)
        chosen = select_surplus(record.schedule, [_ended_run(number, of) for number, of in runs.items()])
        if forgotten := [state.id for number in chosen for state in runs[int(number)]]:
            self._backend.forget_ended(forgotten)


def _ended_run(number: int, states: Sequence[JobState]) -> EndedRun:
    """A run of one job, or of an array."""
    return EndedRun(str(number), number, all(state.status.phase is Phase.SUCCEEDED for state in states))


def _run_of(record: ScheduleRecord, time: int | None) -> Submission:
    """The submission of one run."""
    job = record.submission.job
    labels = {**job.labels, SCHEDULE: record.name}
    if time is not None:
        labels[SCHEDULED_AT] = str(time)
    return replace(record.submission, job=replace(job, labels=labels, suspend=False), schedule=None)
