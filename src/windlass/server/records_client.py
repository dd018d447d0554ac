"""What can be told while no controller runs: what is on record. The calls are those of `client.Client`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from windlass.backends.local.paths import StatePaths
from windlass.backends.local.rank_activity import rank_activity
from windlass.backends.local.state_reader import StateReader, UnknownJobError
from windlass.core.model.status import HOLDING, TERMINAL, JobState, Phase
from windlass.server import views
from windlass.server.errors import ApiError, Code
from windlass.server.job_filter import parse_filter
from windlass.server.progress import summarize_progress
from windlass.server.views import Json, PendingStatus

_LISTED = 1_000
_LIVING = HOLDING, frozenset({Phase.QUEUED}), frozenset(Phase) - HOLDING - TERMINAL - {Phase.QUEUED}
"""In the order of a listing."""


class RecordsClient:
    """The records of a state folder, read. Raises ApiError, and WorldError if they cannot be read."""

    kind = ""

    def __init__(self, records: StateReader, paths: StatePaths) -> None:
        self._records, self._paths = records, paths

    @classmethod
    def open(cls, state: Path) -> Self | None:
        """None if there are no records yet."""
        records = StateReader.open(StatePaths(state))
        return None if records is None else cls(records, StatePaths(state))

    def as_of(self) -> int:
        """When the last of this was written down, in ms; 0 if nothing was."""
        return self._records.last_time()

    def jobs(self, **filters: Any) -> list[Json]:
        """Those that hold nodes, those that wait, by number, then others; with `all` also those that have ended."""
        wanted, limit = parse_filter(filters), int(filters.get("limit") or _LISTED)
        found: list[JobState] = []
        for phases in (*_LIVING, TERMINAL) if wanted.ended else _LIVING:
            query, left = wanted.query(phases), limit - len(found)
            if query and left > 0:
                found += self._records.jobs(**query, first_come=phases is not TERMINAL, limit=left)
        lines = [self._line(state) for state in found]
        if filters.get("progress"):
            for line, state in zip(lines, found, strict=True):
                seen = state.status.phase in HOLDING
                ranks = rank_activity(self._paths, state.job, self._records.tasks(state.id)) if seen else []
                line["progress"] = summarize_progress(ranks)
        return lines

    def job(self, name: str) -> Json:
        """The whole story."""
        found = self._resolve(name)
        state = self._records.job(found)
        if state is None:
            members = [self._records.job(job_id) for job_id in self._records.members(found)]
            return {"id": found, "members": [self._line(member) for member in members if member]}
        tasks, transitions = self._records.tasks(state.id), self._records.transitions(state.id)
        story = views.job_details(state, self._waiting(state), tasks, transitions)
        return {**story, "progress": summarize_progress(rank_activity(self._paths, state.job, tasks))}

    def why(self, name: str, what_if: str = "") -> Json:  # noqa: ARG002 - only a controller can try something else
        """The last verdict that was written down."""
        found = self._resolve(name)
        state = self._records.job(found) or self._records.job(self._records.members(found)[0])
        assert state is not None  # noqa: S101 - an array has members
        return {"job": self._line(state)}

    def why_all(self) -> Json:
        """The last verdict of each that waits."""
        return {"jobs": [{**line, "would_start": None} for line in self.jobs(phase=Phase.QUEUED.value)]}

    def history(self, **filters: Any) -> list[Json]:
        """Jobs that have ended, the last first."""
        given = {key: value for key, value in filters.items() if value}
        return [views.job_line(state) for state in self._records.history(**given)]

    def close(self) -> None:
        """Let go of the file."""
        self._records.close()

    def _resolve(self, name: str) -> str:
        try:
            return self._records.resolve(name)
        except UnknownJobError as error:
            raise ApiError(Code.NO_SUCH_JOB, str(error)) from None

    def _line(self, state: JobState) -> Json:
        return views.job_line(state, self._waiting(state))

    def _waiting(self, state: JobState) -> PendingStatus:
        return PendingStatus(self._records.verdict(state.id)) if state.status.phase is Phase.QUEUED else PendingStatus()
