"""The API server, asked by a process that waits for its answers: an event loop that runs only meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from windlass.backends.kubernetes.client import access, api_errors
from windlass.backends.kubernetes.client.access import Access, AccessError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.waiting import comes
from windlass.server.errors import ApiError, Code

T = TypeVar("T")
_SETTINGS = re.compile(r" ssl:(<[^>]*>|\w+)")
"""What aiohttp says of a connection that helps nobody."""
REQUEST_TIMEOUT_S = 10.0
"""Seconds that one answer may take."""


_OPEN: list[ApiSession] = []


def close_sessions() -> None:
    """Close whatever a verb has opened and not closed: verbs are short, and most end by an error or their answer."""
    for reach in _OPEN:
        with contextlib.suppress(ApiError):
            reach.close()


class ApiSession:
    """One cluster, as one user. Everything raises ApiError (the API's own, of `server.errors`)."""

    def __init__(self, found: Access) -> None:
        self.access = found
        self.connection = Connection(found, within=REQUEST_TIMEOUT_S, attempt=REQUEST_TIMEOUT_S)
        self._runner = asyncio.Runner()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._others: list[Connection] = []
        self.do(self.connection.__aenter__())
        _OPEN.append(self)

    @classmethod
    def to(cls, context: str) -> ApiSession:
        """The cluster of a context; "": the current one, or the one that this process is in."""
        try:
            return cls(access.find(context or None))
        except AccessError as error:
            raise ApiError(Code.BAD_REQUEST, str(error)) from None

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for it."""
        with translated_errors():
            return self._runner.run(work)

    def other(self, address: str) -> Connection:
        """A connection to something else that answers HTTP, without credentials."""
        connection = Connection(access.plain(address), within=REQUEST_TIMEOUT_S, attempt=REQUEST_TIMEOUT_S)
        self.do(connection.__aenter__())
        self._others.append(connection)
        return connection

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Have it go on whenever something else is waited for."""
        task = self._runner.get_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def rest(self, seconds: float, news: asyncio.Event | None = None) -> None:
        """Let go on what has begun, for so long or until there is news."""
        self.do(comes(news or asyncio.Event(), seconds))

    def close(self) -> None:
        """End every request. Closing it once more does nothing."""
        if self not in _OPEN:
            return
        _OPEN.remove(self)
        for task in self._tasks:
            task.cancel()
        self.do(_ended(self._tasks))
        for connection in (self.connection, *self._others):
            self.do(connection.__aexit__())
        self._runner.close()


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def translated_errors() -> Iterator[None]:
    """What the client of the cluster raises, as an error of the API that verbs know."""
    try:
        yield
    except (api_errors.ApiError, api_errors.Unreachable, AccessError) as error:
        raise translate_error(error) from None


def translate_error(error: Exception) -> ApiError:
    """The same error, with its code for programs."""
    if isinstance(error, api_errors.Unreachable):
        plain = _SETTINGS.sub("", str(error))
        return ApiError(Code.GONE, plain, "see whether kubectl reaches the cluster, and which context is meant")
    if isinstance(error, api_errors.ApiError):
        codes = {
            400: Code.BAD_REQUEST,
            401: Code.NOT_ALLOWED,
            403: Code.NOT_ALLOWED,
            404: Code.NO_SUCH_JOB,
            409: Code.WRONG_STATE,
            413: Code.BAD_REQUEST,
            422: Code.BAD_REQUEST,
        }
        return ApiError(codes.get(error.status, Code.INTERNAL), str(error))
    return ApiError(Code.BAD_REQUEST, str(error))
