"""Actions on schedules of a state folder: create, list, suspend, resume, delete, start a run at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from windlass.backends.local.backend import LocalBackend
from windlass.backends.local.schedule_records import ScheduleRecord
from windlass.controller.controller import Controller
from windlass.jobs.description.submission import Submission
from windlass.jobs.schedules.schedule import ScheduleStatus
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.job_lines import Json
from windlass.server.schedule_runner import ScheduleRunner
from windlass.server.schedule_views import schedule_line
from windlass.server.submission_request import SubmissionRequest


class ScheduleActions:
    """The schedules of a state folder, as the API offers them. Methods raise ApiError, BackendError."""

    def __init__(self, controller: Controller, backend: LocalBackend, runner: ScheduleRunner) -> None:
        self._controller, self._backend, self._runner = controller, backend, runner

    async def pause(self) -> None:
        """Starts no run until `resume`: the daemon ends, and a run that becomes due starts with the next one."""
        await self._runner.pause()

    def resume(self) -> None:
        """Starts runs again."""
        self._runner.resume()

    def has(self, name: str) -> bool:
        """Whether a name means a schedule: no job has it as its id."""
        return self._runner.get(name) is not None and self._backend.store.job(name) is None

    def find(self, name: str) -> Json | None:
        """The line of the schedule that a name means; None if it means none."""
        record = self._runner.get(name)
        return self._line(record) if record is not None and self.has(name) else None

    def lines(self) -> list[Json]:
        """All schedules, by name."""
        return [self._line(record) for record in self._runner]

    async def create(self, request: SubmissionRequest) -> list[str]:
        """Adds the schedules of a request, all or none. Returns their names."""
        if not all(submission.schedule for submission in request.submissions):
            raise ApiError(ErrorCode.BAD_REQUEST, "some jobs have cron and others have not", "submit them in two files")
        async with self._runner.lock:
            if request.again and request.key and (known := self._of_request(request.key)):
                return known
            now = self._backend.now()
            records = [_new_record(request, submission, now) for submission in request.submissions]
            self._check(records)
            self._runner.add(records)
        return [record.name for record in records]

    async def act(self, verb: str, name: str) -> Json:
        """Suspends, resumes or (cancel) deletes a schedule. Returns its line as it is then."""
        record = self._runner.require(name)
        if verb == "cancel":
            await self._runner.remove(name)
            return self._line(record)
        if record.status.suspended == (verb == "suspend"):
            state = "suspended already" if record.status.suspended else "not suspended"
            raise ApiError(ErrorCode.WRONG_STATE, f"the schedule {name} is {state}")
        await self._runner.suspend(name, suspended=verb == "suspend")
        return self._line(self._runner.require(name))

    async def start_now(self, name: str) -> list[str]:
        """Starts a run of a schedule at once. Returns its id."""
        record = self._runner.require(name)
        if no := self._controller.refusal(record.submission.job):
            raise ApiError(ErrorCode.REFUSED, f"{name} can never run here: {no.message}")
        return await self._runner.start_now(name)

    def _line(self, record: ScheduleRecord) -> Json:
        return schedule_line(record, [state.id for state in self._runner.runs(record.name)])

    def _of_request(self, key: str) -> list[str]:
        return [record.name for record in self._runner if record.key == key]

    def _check(self, records: Sequence[ScheduleRecord]) -> None:
        """Raises ApiError for a name that is taken, and for a job that can never run."""
        names = [record.name for record in records]
        for record in records:
            if self._runner.get(record.name) is not None or names.count(record.name) > 1:
                fix = f"choose another --name, or delete the other one: windlass cancel {record.name}"
                raise ApiError(ErrorCode.BAD_REQUEST, f"there is a schedule {record.name!r} already", fix)
            if no := self._controller.refusal(record.submission.job):
                raise ApiError(ErrorCode.REFUSED, f"{record.name} can never run here: {no.message}")


def _new_record(request: SubmissionRequest, submission: Submission, now: int) -> ScheduleRecord:
    """A schedule of which nothing is due before `now`. A suspended job is a suspended schedule."""
    job = submission.job
    status = ScheduleStatus(considered=now, suspended=job.suspend)
    plain = replace(submission, job=replace(job, suspend=False))
    return ScheduleRecord(plain, now, status, request.environment, request.key)
