"""Repeats a request until the API server answers it, beyond the time limit of `connection` and its retries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from windlass.backends.errors import BackendError
from windlass.backends.kubernetes.client.api_errors import ApiError

T = TypeVar("T")
RETRY_INTERVAL_S = 1.0
"""Seconds between two attempts."""


async def request_until_answered(ask: Callable[[], Awaitable[T]]) -> T:
    """Returns the result of a request, retrying while the API server is away or this process may not write.

    It does not know whether this process will lead again: a deposed leader cancels its tasks.
    """
    while True:
        try:
            return await ask()
        except ApiError:
            raise
        except BackendError:  # no answer, or temporarily no leadership or no credentials
            await asyncio.sleep(RETRY_INTERVAL_S)


async def repeat_until_done(work: Callable[[], Awaitable[T]], report: Callable[[BackendError], None]) -> T:
    """Returns the result of several requests, repeating all of them after any error, which it reports."""
    while True:
        try:
            return await work()
        except BackendError as error:
            report(error)
            await asyncio.sleep(RETRY_INTERVAL_S)
