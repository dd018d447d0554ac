"""The thread that uses one connection to the database of history, so that the event loop does not wait for it.

A server that the network does not reach, or that is stopped, may keep a connection open and send nothing. Work that
lasts too long is therefore ended by a break of its connection, and for some seconds further work is refused at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from windlass.server.operator.history import databases, tables
from windlass.server.operator.history.databases import Database, HistoryError

T = TypeVar("T")
_SLOW_S = 1.0
"""Seconds after which a failure shows that the database does not answer, rather than that it refuses."""
_PAUSE_S = 4.0
"""Seconds without an attempt after such a failure; shorter than the pause of the writer after an error."""
_CLOSE_S = 2.0
"""Seconds for which the end waits for work, and once more after it has broken the connection."""


class DatabaseThread:
    """One connection and the thread that uses it. The connection is opened again after an error."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._thread = ThreadPoolExecutor(1, name)
        self._database: Database | None = None
        self._running_until: float | None = None
        """Time by which the running work has to end; None while nothing runs."""
        self._newest: Future[Any] | None = None
        """The work that was asked for last."""
        self.is_silent = False
        """Whether the last work has failed slowly."""
        self._retry_at = 0.0
        """Time of the next attempt with a database that does not answer."""

    async def do(self, work: Callable[[Database], T], within_s: float) -> T:
        """Calls `work` with the database, in the thread, after all earlier work. Raises HistoryError.

        `within_s`: seconds to wait for the result. Work that runs for longer is ended.
        """
        if self.is_silent and self._is_busy():
            raise self._no_answer("the database does not answer")
        future = self._newest = self._thread.submit(self._do, work, within_s)
        try:
            async with asyncio.timeout(within_s):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            overdue = self._running_until is not None and time.monotonic() > self._running_until
            if future.running() or overdue:
                self._break_connection()
            raise self._no_answer(f"no answer within {within_s:g} s") from None

    async def close(self) -> None:
        """Closes the connection and ends the thread, within a bounded time."""
        closing = asyncio.wrap_future(self._thread.submit(self._disconnect))
        self._thread.shutdown(wait=False)
        done, _ = await asyncio.wait([closing], timeout=_CLOSE_S)
        if not done:
            self._break_connection()
            await asyncio.wait([closing], timeout=_CLOSE_S)

    def _is_busy(self) -> bool:
        return self._running_until is not None or (self._newest is not None and not self._newest.done())

    def _do(self, work: Callable[[Database], T], within_s: float) -> T:
        began = time.monotonic()
        if began < self._retry_at:
            raise self._no_answer("the database does not answer")
        self._running_until = began + within_s
        try:
            found = work(self._connect())
        except HistoryError as error:
            if not error.hopeless:
                self._disconnect()
                self.is_silent = time.monotonic() - began > _SLOW_S
                self._retry_at = time.monotonic() + _PAUSE_S if self.is_silent else 0.0
            raise
        finally:
            self._running_until = None
        self.is_silent = False
        return found

    def _connect(self) -> Database:
        if self._database is None:
            self._database = databases.connect(self._url)
            tables.prepare(self._database)
        return self._database

    def _disconnect(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _no_answer(self, text: str) -> HistoryError:
        return HistoryError(f"history in {databases.describe(self._url)}: {text}")

    def _break_connection(self) -> None:
        database = self._database
        if database is not None:
            database.break_connection()
