"""The writer of job history: a queue of entries, and the task that writes it in a thread.

`note` only appends to the queue. The controller goes on when the database does not answer: the error is reported once,
entries wait in the queue, and entries beyond its size are dropped, counted, and reported when the database is back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import msgspec

from windlass.backends.event_timeout import wait_for_event
from windlass.core.model.status import TERMINAL, JobState
from windlass.server.operator.history import queries, tables
from windlass.server.operator.history.database_thread import DatabaseThread
from windlass.server.operator.history.databases import Database, HistoryError
from windlass.server.operator.history.entries import HistoryEntry

_MAX_QUEUED, _MAX_QUEUED_BYTES = 20_000, 64 << 20
"""Entries that wait to be written, one for each turn, and about the bytes that they take."""
_ENTRY_BYTES = 2_000
"""About the bytes of an entry without logs and jobs."""
_BATCH = 500
"""Entries of one transaction."""
_WRITE_S, _CLEANUP_S = 35.0, 300.0
"""Longest time of a transaction, which may have a statement of 30 s, and of a removal of old jobs."""
_RETRY_DELAY_S = 5.0
"""Pause after a database error."""
_CLEANUP_INTERVAL_S = 600.0
"""Time between two removals of old jobs."""
_FLUSH_TIMEOUT_S = 1.0
"""Longest wait of a query for the entries that were noted before it."""
_REMOVAL_BATCH = 100
"""Jobs removed at a time while the database is too large."""


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """Limits of the history: `keep` in ms, `max_bytes` of the SQLite file."""

    keep: int = 14 * 24 * 3_600_000
    max_bytes: int = 256 << 20


@dataclass(frozen=True, slots=True)
class _QueuedEntry:
    """An entry, the number of its first transition, and about its bytes in memory."""

    entry: HistoryEntry
    number: int
    size: int


class HistoryWriter:
    """Background writer of history entries, in order; removes old jobs.

    `note` raises nothing. `on_trouble` is called once when the database stops to answer, and once when it is back.
    `now`: ms since the epoch.
    """

    def __init__(
        self, url: str, now: Callable[[], int], on_trouble: Callable[[str], None], retention: RetentionLimits
    ) -> None:
        self._now, self._on_trouble, self._retention = now, on_trouble, retention
        self.trouble = ""
        """Reason why nothing can be written at present; empty if it can."""
        self.lost = 0
        """Entries dropped because the queue was full or because the database refuses their content."""
        self._queue: deque[_QueuedEntry] = deque()
        self._queued_bytes = 0
        self._came = asyncio.Event()
        self._progress = asyncio.Condition()
        self._noted = self._settled = self._number = 0
        self._living: set[tuple[str, int]] = set()
        """Jobs that have not ended, by id and creation time: their entries are kept."""
        self._thread = DatabaseThread(url, "history writer")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to write, in the running loop."""
        self._task = asyncio.create_task(self._write())

    async def close(self) -> None:
        """Writes what was noted, for a bounded time, and ends."""
        if self._task is not None:
            await self.wait_for_writes()
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._thread.close()

    @property
    def waiting(self) -> int:
        """Number of entries that are not written yet."""
        return len(self._queue)

    def note(self, entry: HistoryEntry) -> None:
        """Queue an entry to be written."""
        first = self._number + 1
        if entry.transitions:
            # Numbers contain the time, so that the numbers of two leaders are in order.
            first = max(first, entry.transitions[0].transition.at * 1000)
            self._number = first + len(entry.transitions) - 1
        for each in entry.transitions:
            self._living.add((each.transition.job_id, each.created_at))
        self._living.difference_update((state.id, state.status.created_at) for state in entry.ended)
        size = _size(entry)
        if len(self._queue) >= _MAX_QUEUED or self._queued_bytes + size > _MAX_QUEUED_BYTES:
            self.lost += 1
            return
        self._queue.append(_QueuedEntry(entry, first, size))
        self._queued_bytes += size
        self._noted += 1
        self._came.set()

    def set_living(self, states: Collection[JobState]) -> None:
        """Registers the jobs that have not ended, when a controller takes over."""
        self._living.update((s.id, s.status.created_at) for s in states if s.status.phase not in TERMINAL)

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        clean_at = loop.time()
        while True:
            # 1. wait for an entry or for the next cleanup
            await wait_for_event(self._came, clean_at - loop.time())
            self._came.clear()
            # 2. write the queue, with retries
            while self._queue:
                batch = [self._queue[place] for place in range(min(_BATCH, len(self._queue)))]
                if await self._try([(each.entry, each.number) for each in batch]):
                    await self._settle(len(batch))
            # 3. remove old jobs
            if loop.time() >= clean_at:
                clean_at = loop.time() + (_CLEANUP_INTERVAL_S if await self._clean_up() else _RETRY_DELAY_S)

    async def _try(self, batch: Sequence[tuple[HistoryEntry, int]]) -> bool:
        """Writes a batch; returns whether it was written or dropped. Waits before it returns False."""
        try:
            await self._thread.do(lambda database: database.write(tables.make_writes(batch)), _WRITE_S)
        except HistoryError as error:
            if error.hopeless and len(batch) > 1:  # the other entries of the batch may be valid
                return all([await self._try([each]) for each in batch])
            self._report(str(error))
            self.lost += error.hopeless
            if not error.hopeless:
                await self._settle(0)
                await asyncio.sleep(_RETRY_DELAY_S)
            return error.hopeless
        if self.trouble:
            self.trouble = ""
            self._on_trouble(f"history is written again{f', without {self.lost} entries' if self.lost else ''}")
        return True

    async def _settle(self, count: int) -> None:
        """Removes the first entries of the queue and wakes the queries that wait for them."""
        for _ in range(count):
            self._queued_bytes -= self._queue.popleft().size
        self._settled += count
        async with self._progress:
            self._progress.notify_all()

    async def _clean_up(self) -> bool:
        try:
            await self._thread.do(self._remove_old, _CLEANUP_S)
        except HistoryError as error:
            self._report(str(error))
            return False
        return True

    def _report(self, trouble: str) -> None:
        if not self.trouble:
            self._on_trouble(trouble)
        self.trouble = trouble

    def _remove_old(self, database: Database) -> None:
        old = [
            each for each in queries.outdated(database, self._now() - self._retention.keep) if each not in self._living
        ]
        if old:
            database.write(tables.make_deletions(old))
        while (database.size() or 0) > self._retention.max_bytes and (
            first := queries.oldest(database, _REMOVAL_BATCH)
        ):
            database.write(tables.make_deletions(first))

    async def wait_for_writes(self) -> None:
        """Waits until all noted entries are written, for at most a second, and not while the database fails."""
        target = self._noted
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_TIMEOUT_S), self._progress:
                await self._progress.wait_for(lambda: self._settled >= target or bool(self.trouble))


def _size(entry: HistoryEntry) -> int:
    logs = sum(len(log.text) for log in entry.lines)
    return _ENTRY_BYTES + logs + sum(len(msgspec.json.encode(state.job)) for state in entry.ended)
