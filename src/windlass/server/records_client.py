"""Queries of a state folder's records while no controller runs, with the calls of `client.Client`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from windlass.backends.local.name_resolution import NameResolutionError, array_members, resolve
from windlass.backends.local.paths import StatePaths
from windlass.backends.local.rank_activity import rank_activity
from windlass.backends.local.schedule_records import read_schedules
from windlass.backends.local.state_reader import StateReader, Task
from windlass.backends.local.supervisor import proc
from windlass.core.model.status import HOLDING, TERMINAL, JobState, Phase
from windlass.jobs.kubernetes.labels import SCHEDULE
from windlass.server import views
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.job_filter import parse_fields, parse_filter
from windlass.server.job_lines import FIELDS, Json, PendingStatus, job_line
from windlass.server.progress import summarize_progress
from windlass.server.schedule_views import schedule_line
from windlass.server.telemetry_records.recorder import STORE_NAME

_DEFAULT_LIMIT = 1_000
_LIVING = HOLDING, frozenset({Phase.QUEUED}), frozenset(Phase) - HOLDING - TERMINAL - {Phase.QUEUED}
"""Phases in the order of a listing."""


class RecordsClient:
    """Read-only client of a state folder's records. Raises ApiError, and BackendError if they cannot be read."""

    kind = ""

    def __init__(self, records: StateReader, paths: StatePaths) -> None:
        self._records, self._paths = records, paths

    @classmethod
    def open(cls, state: Path) -> Self | None:
        """A client of the folder's records; None if there are none yet."""
        records = StateReader.open(StatePaths(state))
        return None if records is None else cls(records, StatePaths(state))

    def as_of(self) -> int:
        """Time of the last record, in ms; 0 without records."""
        return self._records.last_time()

    def jobs(self, **filters: Any) -> list[Json]:
        """Jobs as lines: holders of nodes, then pending jobs by number, then others; ended jobs with `all`."""
        job_filter, limit = parse_filter(filters), int(filters.get("limit") or _DEFAULT_LIMIT)
        found: list[JobState] = []
        for phases in (*_LIVING, TERMINAL) if job_filter.ended else _LIVING:
            query, left = job_filter.query(phases), limit - len(found)
            if query and left > 0:
                found += self._records.jobs(**query, first_come=phases is not TERMINAL, limit=left)
        fields = parse_fields(str(filters.get("fields") or ""))
        lines = [self._line(state, fields) for state in found]
        if filters.get("progress"):
            for line, state in zip(lines, found, strict=True):
                seen = state.status.phase in HOLDING
                ranks = rank_activity(self._paths, state.job, self._records.tasks(state.id)) if seen else []
                line["progress"] = summarize_progress(ranks)
        if filters.get("last_nodes"):
            placed = self._records.last_nodes([state.id for state in found if state.status.phase in TERMINAL])
            lines = [{**line, "last_nodes": placed.get(state.id, [])} for line, state in zip(lines, found, strict=True)]
        return lines

    def schedules(self) -> list[Json]:
        """Schedules, by name."""
        living = self._records.alive()
        return [
            schedule_line(record, [state.id for state in living if state.job.labels.get(SCHEDULE) == record.name])
            for record in read_schedules(self._records, self._paths.database)
        ]

    def job(self, name: str) -> Json:
        """All details of a job, the lines of an array's members, or the line of a schedule."""
        if schedule := self._schedule(name):
            return schedule
        found = self._resolve(name)
        state = self._records.job(found)
        if state is None:
            members = [self._records.job(job_id) for job_id in array_members(self._records, found)]
            return {"id": found, "members": [self._line(member) for member in members if member]}
        tasks, transitions = self._records.tasks(state.id), self._records.transitions(state.id)
        details = views.job_details(state, self._waiting(state), tasks, transitions)
        progress = summarize_progress(rank_activity(self._paths, state.job, tasks))
        return {**details, "progress": progress, "member_wait": None}  # a wait is known of living members alone

    def metrics(self, name: str, **filters: Any) -> Json:
        """Stored telemetry of a job; see `Service.metrics`."""
        from windlass.server.telemetry_records.queries import job_metrics, read_span  # noqa: PLC0415 - rarely needed

        given = {key: str(value) for key, value in filters.items()}
        return job_metrics(self._paths.root / STORE_NAME, self._resolve(name), read_span(given))

    def living(self) -> dict[str, list[int]]:
        """Pids of the living processes of each job that holds nodes: they outlive a daemon."""
        holding = self._records.jobs(phases=HOLDING)
        return {
            state.id: [pid for task in self._records.tasks(state.id) if (pid := _living_pid(task))] for state in holding
        }

    def explain(self, name: str, what_if: str = "") -> Json:  # noqa: ARG002 - only a controller can explain other options
        """The job's line with its last saved verdict, or the line of a schedule."""
        if schedule := self._schedule(name):
            return {"schedule": schedule}
        found = self._resolve(name)
        state = self._records.job(found) or self._records.job(array_members(self._records, found)[0])
        assert state is not None  # noqa: S101 - an array has members
        return {"job": self._line(state)}

    def explain_all(self) -> Json:
        """Lines of pending jobs with their last saved verdicts."""
        return {"jobs": [{**line, "would_start": None} for line in self.jobs(phase=Phase.QUEUED.value)]}

    def history(self, **filters: Any) -> list[Json]:
        """Ended jobs, the last first."""
        given = {key: value for key, value in filters.items() if value}
        return [job_line(state) for state in self._records.history(**given)]

    def close(self) -> None:
        """Closes the database."""
        self._records.close()

    def _schedule(self, name: str) -> Json | None:
        """The line of the schedule that a name means; None if it means none."""
        found = next((row for row in self.schedules() if row["name"] == name), None)
        return None if found is None or self._records.job(name) else found

    def _resolve(self, name: str) -> str:
        try:
            return resolve(self._records, name)
        except NameResolutionError as error:
            raise ApiError(ErrorCode.NO_SUCH_JOB, str(error)) from None

    def _line(self, state: JobState, fields: Iterable[str] = FIELDS) -> Json:
        return job_line(state, self._waiting(state), fields)

    def _waiting(self, state: JobState) -> PendingStatus:
        return PendingStatus(self._records.verdict(state.id)) if state.status.phase is Phase.QUEUED else PendingStatus()


def _living_pid(task: Task) -> int:
    """Pid of the task's process; 0 if it has ended."""
    return task.pid if task.pid and task.started is not None and proc.is_alive(task.pid, task.started) else 0
