"""Store of job history, which outlives the objects of the jobs: its writer, and its queries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Self, TypeVar

from windlass.backends.port import Transition
from windlass.core.model.status import JobState
from windlass.server.job_filter import HistoryFilter
from windlass.server.operator.history import databases, queries, tables
from windlass.server.operator.history.database_thread import DatabaseThread
from windlass.server.operator.history.databases import Database
from windlass.server.operator.history.entries import RecordedStay, StoredLog
from windlass.server.operator.history.writer import HistoryWriter, RetentionLimits
from windlass.server.operator.pod_tasks import PodTask

T = TypeVar("T")
_QUERY_S = 6.0
"""Longest time of a query: a page waits at most 20 s for its turn."""
_DEFAULT = RetentionLimits()


class JobHistory:
    """Store of job history; an async context manager.

    Queries raise HistoryError. Parameters are those of `HistoryWriter`.
    """

    def __init__(
        self, url: str, now: Callable[[], int], on_trouble: Callable[[str], None], retention: RetentionLimits = _DEFAULT
    ) -> None:
        databases.check_url(url)
        self.writer = HistoryWriter(url, now, on_trouble, retention)
        self._reader = DatabaseThread(url, "history reader")

    async def __aenter__(self) -> Self:
        self.writer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.writer.close()
        await self._reader.close()

    async def job(self, job_id: str) -> JobState | None:
        """The latest ended job with this id."""
        return await self._query(lambda database: queries.job(database, job_id))

    async def ids(self, name: str) -> list[str]:
        """Ids of ended jobs that a name may mean."""
        return await self._query(lambda database: queries.ids(database, name))

    async def names(self) -> list[str]:
        """Ids of the jobs that ended last."""
        return await self._query(queries.names)

    async def jobs(self, query: Mapping[str, Any], limit: int) -> list[JobState]:
        """See `queries.jobs`."""
        return await self._query(lambda database: queries.jobs(database, query, limit))

    async def ended(self, chosen: HistoryFilter) -> list[JobState]:
        """See `queries.ended`."""
        return await self._query(lambda database: queries.ended(database, chosen))

    async def transitions(self, job_id: str, created_at: int) -> list[Transition]:
        """Transitions of one job, oldest first."""
        return await self._query(lambda database: queries.transitions(database, job_id, created_at))

    async def events(self, after: int, job_ids: Collection[str]) -> list[tuple[int, Transition]]:
        """See `queries.events`."""
        return await self._query(lambda database: queries.events(database, after, job_ids))

    async def tasks(self, job_id: str, created_at: int) -> list[PodTask]:
        """See `queries.tasks`."""
        return await self._query(lambda database: queries.tasks(database, job_id, created_at))

    async def logs(self, job_id: str, created_at: int) -> list[StoredLog]:
        """See `queries.logs`."""
        return await self._query(lambda database: queries.logs(database, job_id, created_at))

    async def node_stays(self, node: str, visible: Collection[str] | None, limit: int) -> list[RecordedStay]:
        """See `queries.node_stays`."""
        return await self._query(lambda database: queries.node_stays(database, node, visible, limit))

    async def note(self, name: str) -> str | None:
        """See `queries.note`."""
        return await self._query(lambda database: queries.note(database, name))

    async def set_note(self, name: str, value: str) -> None:
        """Sets a fact about the whole history."""
        await self._reader.do(lambda database: database.write(tables.make_note(name, value)), _QUERY_S)

    async def _query(self, query: Callable[[Database], T]) -> T:
        if not self._reader.is_silent:
            await self.writer.wait_for_writes()
        return await self._reader.do(query, _QUERY_S)
