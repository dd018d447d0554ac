"""What was committed, and how jobs ended, kept when their objects are gone.

`note` only puts things into a queue; a task of its own writes them in a thread. When the database does not answer, the
controller goes on: trouble is told once, entries wait as long as there is room, and what did not find any is counted
and told when the database is back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from windlass.backends.port import Transition
from windlass.backends.waiting import comes
from windlass.core.model.status import TERMINAL, JobState
from windlass.server.operator.history import databases, queries, tables
from windlass.server.operator.history.databases import Database, HistoryError
from windlass.server.operator.history.entries import HistoryEntry, StoredLog
from windlass.server.operator.pod_tasks import PodTask

T = TypeVar("T")
_ROOM = 20_000
"""Entries that wait to be written: a turn each. At 1 to 10 KB that is some tens of megabytes at most."""
_BATCH = 500
"""Entries in one transaction."""
_AGAIN = 5.0
"""Seconds before a database is tried again that did not answer."""
_CLEANING = 600.0
"""Seconds between two looks at what is too old or too much."""
_BEHIND = 1.0
"""Seconds that whoever asks waits for what was noted before."""
_FEWER = 100
"""Jobs that are forgotten at a time when there is too much."""


@dataclass(frozen=True, slots=True)
class Retention:
    """For how long (ms), and how much (bytes)."""

    keep: int = 14 * 24 * 3_600_000
    most: int = 256 << 20


_DEFAULT = Retention()


class JobHistory:
    """An async context manager. Questions raise HistoryError; `note` raises nothing.

    `on_trouble` hears of a database that does not answer, once, and when it is back. `now` in ms since the epoch.
    """

    def __init__(
        self, url: str, now: Callable[[], int], on_trouble: Callable[[str], None], keeping: Retention = _DEFAULT
    ) -> None:
        databases.check_url(url)
        self._url, self._now, self._on_trouble, self._keeping = url, now, on_trouble, keeping
        self.trouble = ""
        """Why nothing can be written just now, "" if it can."""
        self.lost = 0
        """Entries for which there was no room, or that no database takes."""
        self._queue: deque[tuple[HistoryEntry, int]] = deque()
        self._came = asyncio.Event()
        self._progress = asyncio.Condition()
        self._noted = self._settled = self._number = 0
        self._living: set[tuple[str, int]] = set()
        """Jobs that have not ended: nothing of them is too old."""
        self._writer = _Desk(url, "history writer")
        self._reader = _Desk(url, "history reader")
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._write())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            await self._flushed()
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._writer.close()
        await self._reader.close()

    # --- writing -----------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Entries that are not written yet."""
        return len(self._queue)

    def note(self, entry: HistoryEntry) -> None:
        """Have this written, soon."""
        first = self._number + 1
        if entry.transitions:
            # A number tells the moment as well, so that numbers of two leaders are in the order of time.
            first = max(first, entry.transitions[0].transition.at * 1000)
            self._number = first + len(entry.transitions) - 1
        for told in entry.transitions:
            self._living.add((told.transition.job_id, told.created_at))
        self._living.difference_update((state.id, state.status.created_at) for state in entry.ended)
        if len(self._queue) >= _ROOM:
            self.lost += 1
            return
        self._queue.append((entry, first))
        self._noted += 1
        self._came.set()

    def living(self, states: Collection[JobState]) -> None:
        """These have not ended, as a controller that takes over knows."""
        self._living.update((s.id, s.status.created_at) for s in states if s.status.phase not in TERMINAL)

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        clean_at = loop.time()
        while True:
            # 1. until there is something new, or time to clean up
            await comes(self._came, clean_at - loop.time())
            self._came.clear()
            # 2. it is written, however often that takes
            while self._queue:
                batch = [self._queue[place] for place in range(min(_BATCH, len(self._queue)))]
                if await self._try(batch):
                    await self._settle(len(batch))
            # 3. what is too old or too much goes
            if loop.time() >= clean_at:
                clean_at = loop.time() + (_CLEANING if await self._tidied() else _AGAIN)

    async def _try(self, batch: Sequence[tuple[HistoryEntry, int]]) -> bool:
        """Whether it is done with, one way or the other. If not, some time has passed."""
        try:
            await self._writer.do(lambda database: database.write(tables.make_writes(batch)))
        except HistoryError as error:
            if error.hopeless and len(batch) > 1:  # the others of it are none the worse
                return all([await self._try([each]) for each in batch])
            self._tell(str(error))
            self.lost += error.hopeless
            if not error.hopeless:
                await self._settle(0)
                await asyncio.sleep(_AGAIN)
            return error.hopeless
        if self.trouble:
            self.trouble = ""
            self._on_trouble(f"history is written again{f', without {self.lost} entries' if self.lost else ''}")
        return True

    async def _settle(self, count: int) -> None:
        """So many of the first are done with; whoever waits looks again."""
        for _ in range(count):
            self._queue.popleft()
        self._settled += count
        async with self._progress:
            self._progress.notify_all()

    async def _tidied(self) -> bool:
        try:
            await self._writer.do(self._clean)
        except HistoryError as error:
            self._tell(str(error))
            return False
        return True

    def _tell(self, trouble: str) -> None:
        if not self.trouble:
            self._on_trouble(trouble)
        self.trouble = trouble

    def _clean(self, database: Database) -> None:
        old = [
            each for each in queries.outdated(database, self._now() - self._keeping.keep) if each not in self._living
        ]
        if old:
            database.write(tables.make_deletions(old))
        while (database.size() or 0) > self._keeping.most and (first := queries.oldest(database, _FEWER)):
            database.write(tables.make_deletions(first))

    # --- asking ------------------------------------------------------------------------------------

    async def job(self, job_id: str) -> JobState | None:
        """A job that has ended: the last that bore this id."""
        return await self._ask(lambda database: queries.job(database, job_id))

    async def ids(self, name: str) -> list[str]:
        """Ids of jobs that a name may mean."""
        return await self._ask(lambda database: queries.ids(database, name))

    async def names(self) -> list[str]:
        """Ids of those that ended last."""
        return await self._ask(queries.names)

    async def jobs(self, query: Mapping[str, Any], limit: int) -> list[JobState]:
        """See `reading.jobs`."""
        return await self._ask(lambda database: queries.jobs(database, query, limit))

    async def ended(self, *, name: str, user: str, since: int, limit: int) -> list[JobState]:
        """See `reading.ended`."""
        return await self._ask(lambda database: queries.ended(database, name=name, user=user, since=since, limit=limit))

    async def transitions(self, job_id: str, created_at: int) -> list[Transition]:
        """Of one job, oldest first."""
        return await self._ask(lambda database: queries.transitions(database, job_id, created_at))

    async def events(self, after: int, job_ids: Collection[str]) -> list[tuple[int, Transition]]:
        """See `reading.events`."""
        return await self._ask(lambda database: queries.events(database, after, job_ids))

    async def tasks(self, job_id: str, created_at: int) -> list[PodTask]:
        """See `reading.tasks`."""
        return await self._ask(lambda database: queries.tasks(database, job_id, created_at))

    async def logs(self, job_id: str, created_at: int) -> list[StoredLog]:
        """See `reading.logs`."""
        return await self._ask(lambda database: queries.logs(database, job_id, created_at))

    async def _ask(self, question: Callable[[Database], T]) -> T:
        await self._flushed()
        return await self._reader.do(question)

    async def _flushed(self) -> None:
        """Until what was noted so far is written; not for long, and not while there is trouble."""
        target = self._noted
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_BEHIND), self._progress:
                await self._progress.wait_for(lambda: self._settled >= target or bool(self.trouble))


class _Desk:
    """One connection and the thread that uses it; opened anew after trouble."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._thread = ThreadPoolExecutor(1, name)
        self._database: Database | None = None

    async def do(self, work: Callable[[Database], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._do, work)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._let_go)
        self._thread.shutdown(wait=False)

    def _do(self, work: Callable[[Database], T]) -> T:
        if self._database is None:
            self._database = databases.connect(self._url)
            tables.prepare(self._database)
        try:
            return work(self._database)
        except HistoryError as error:
            if not error.hopeless:
                self._let_go()
            raise

    def _let_go(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
