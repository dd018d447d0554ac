"""The thread that uses one connection to the database of history, so that the event loop does not wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from windlass.server.operator.history import databases, tables
from windlass.server.operator.history.databases import Database, HistoryError

T = TypeVar("T")


class DatabaseThread:
    """One connection and the thread that uses it. The connection is opened again after an error."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._thread = ThreadPoolExecutor(1, name)
        self._database: Database | None = None

    async def do(self, work: Callable[[Database], T]) -> T:
        """Calls `work` with the database, in the thread. Raises HistoryError."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._do, work)

    async def close(self) -> None:
        """Closes the connection and ends the thread."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown(wait=False)

    def _do(self, work: Callable[[Database], T]) -> T:
        if self._database is None:
            self._database = databases.connect(self._url)
            tables.prepare(self._database)
        try:
            return work(self._database)
        except HistoryError as error:
            if not error.hopeless:
                self._disconnect()
            raise

    def _disconnect(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
