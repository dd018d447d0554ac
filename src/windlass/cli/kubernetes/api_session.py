"""Blocking calls of the API server: an event loop that runs only while a call is waited for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar, cast

from windlass.backends.event_timeout import wait_for_event
from windlass.backends.kubernetes.client import access, api_errors
from windlass.backends.kubernetes.client.access import Access, AccessError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.identity import constant_access
from windlass.server.errors import ApiError, ErrorCode

T = TypeVar("T")
REQUEST_TIMEOUT_S = 10.0
"""Limit for one answer of the API server."""


_OPEN: list[ApiSession] = []


def close_sessions() -> None:
    """Closes the sessions that a verb has left open; called once at the end of the process."""
    for session in _OPEN:
        with contextlib.suppress(ApiError):
            session.close()


class ApiSession:
    """A session with one cluster as one user. Every method raises ApiError of `server.errors`."""

    def __init__(self, found: Access) -> None:
        self.access = found
        self.connection = Connection(found, within=REQUEST_TIMEOUT_S, attempt=REQUEST_TIMEOUT_S)
        self._runner = asyncio.Runner()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._others: list[Connection] = []
        self.run(self.connection.__aenter__())
        _OPEN.append(self)

    @classmethod
    def to(cls, context: str) -> ApiSession:
        """Opens a session with the cluster of a context; "": the current one, or the one this process runs in."""
        try:
            return cls(access.find(context or None))
        except AccessError as error:
            raise ApiError(ErrorCode.BAD_REQUEST, str(error)) from None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end and returns its result; started tasks make progress meanwhile.

        An error leaves no cycle of references: `asyncio.Runner.run` has one of the task, its error and the frame, which
        would keep the session open until garbage is collected.
        """
        found, error = self._runner.run(_settled(work))
        if error is None:
            return cast("T", found)
        try:
            with translated_errors():
                raise error
        finally:
            del error

    def connect_to(self, address: str) -> Connection:
        """Opens a connection to another HTTP server, without credentials."""
        connection = Connection(constant_access(address), within=REQUEST_TIMEOUT_S, attempt=REQUEST_TIMEOUT_S)
        self.run(connection.__aenter__())
        self._others.append(connection)
        return connection

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts a task, which makes progress during `run` and `wait`."""
        task = self._runner.get_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def wait(self, seconds: float, event: asyncio.Event | None = None) -> None:
        """Runs the started tasks for a time, or until the event is set."""
        self.run(wait_for_event(event or asyncio.Event(), seconds))

    def close(self) -> None:
        """Cancels every task and closes all connections. Closing again does nothing."""
        if self not in _OPEN:
            return
        _OPEN.remove(self)
        for task in self._tasks:
            task.cancel()
        self.run(_wait_for_tasks(self._tasks))
        for connection in (self.connection, *self._others):
            self.run(connection.__aexit__())
        self._runner.close()


async def _settled(work: Coroutine[Any, Any, T]) -> tuple[T | None, Exception | None]:
    """Returns the result of a coroutine, or its error."""
    try:
        return await work, None
    except Exception as error:  # noqa: BLE001 - raised again by the caller
        return None, error


async def _wait_for_tasks(tasks: set[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def translated_errors() -> Iterator[None]:
    """Translates errors of the Kubernetes client to ApiError."""
    try:
        yield
    except (api_errors.ApiError, api_errors.Unreachable, AccessError) as error:
        raise translate_error(error) from None


def translate_error(error: Exception) -> ApiError:
    """Returns an ApiError with the code for the kind of error."""
    if isinstance(error, api_errors.Unreachable):
        return ApiError(
            ErrorCode.GONE, str(error), "check that kubectl reaches the cluster, and which context is selected"
        )
    if isinstance(error, api_errors.ApiError):
        codes = {
            400: ErrorCode.BAD_REQUEST,
            401: ErrorCode.NOT_ALLOWED,
            403: ErrorCode.NOT_ALLOWED,
            404: ErrorCode.NO_SUCH_JOB,
            409: ErrorCode.WRONG_STATE,
            413: ErrorCode.BAD_REQUEST,
            422: ErrorCode.BAD_REQUEST,
        }
        return ApiError(codes.get(error.status, ErrorCode.INTERNAL), str(error))
    return ApiError(ErrorCode.BAD_REQUEST, str(error))
