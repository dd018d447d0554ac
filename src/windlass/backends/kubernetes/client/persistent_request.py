"""Asking again until there is an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from windlass.backends.errors import BackendError
from windlass.backends.kubernetes.client.api_errors import ApiError

T = TypeVar("T")
PAUSE = 1.0
"""Seconds."""


async def request_until_answered(ask: Callable[[], Awaitable[T]]) -> T:
    """What comes of it, however long the API server is away; also while this process may not write.

    Whether it will ever write again is not known here: who is deposed cancels his tasks.
    """
    while True:
        try:
            return await ask()
        except ApiError:
            raise
        except BackendError:  # no answer, no right to write just now, no credentials just now
            await asyncio.sleep(PAUSE)
