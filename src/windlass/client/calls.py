"""Calls of the methods of a client: `BlockingCalls` blocks the thread, `AwaitedCalls` is awaited.

`Client` is written over the first. `tools/write_async_client.py` generates `AsyncClient` from it, over the second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from windlass.client.connection import TargetConnection

P = ParamSpec("P")
T = TypeVar("T")


class BlockingCalls:
    """Calls that block the thread of the caller."""

    def __init__(self, connection: TargetConnection) -> None:
        self._connection = connection

    def _call(self, step: Callable[Concatenate[TargetConnection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._connection.start(step, *args, **kwargs).result()

    def _pause(self, seconds: float) -> None:
        time.sleep(seconds)


class AwaitedCalls:
    """Calls that are awaited; the event loop goes on meanwhile. A cancelled call ends in its thread."""

    def __init__(self, connection: TargetConnection) -> None:
        self._connection = connection

    async def _call(self, step: Callable[Concatenate[TargetConnection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.wrap_future(self._connection.start(step, *args, **kwargs))

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
