"""Random delays of the requests to an API server and of the events from it, to find tests that assume an order.

`WINDLASS_DELAY_MS=300` delays each request of the operator under test and of the fake kubelets by up to 300 ms before
it is sent and again before its reply is read, and each piece of a watch by as much. Programs in processes of their own
are not delayed.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from windlass.backends.kubernetes.client.transport import Transport
from windlass.controlplane.fake_kubelet import FakeKubelets

VARIABLE = "WINDLASS_DELAY_MS"


def delay_requests() -> None:
    """Delays the requests of this process from now on, where the variable is set."""
    if longest := int(os.environ.get(VARIABLE, "0")) / 1000:
        Transport.exchange = _delayed(Transport.exchange, longest)
        Transport.stream = _delayed_stream(Transport.stream, longest)
        _delay_kubelets(longest)


async def _wait(longest: float) -> None:
    await asyncio.sleep(random.random() * longest)  # noqa: S311 - no secret


def _delayed(send: Callable[..., Awaitable[Any]], longest: float) -> Callable[..., Awaitable[Any]]:
    async def delayed(*args: Any, **more: Any) -> Any:
        await _wait(longest)
        reply = await send(*args, **more)
        await _wait(longest)
        return reply

    return delayed


def _delayed_stream(
    open_stream: Callable[..., AbstractAsyncContextManager[AsyncIterator[bytes]]], longest: float
) -> Callable[..., AbstractAsyncContextManager[AsyncIterator[bytes]]]:
    async def pieces(of: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for piece in of:
            await _wait(longest)
            yield piece

    @asynccontextmanager
    async def delayed(*args: Any, **more: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        async with open_stream(*args, **more) as stream:
            yield pieces(stream)

    return delayed


def _delay_kubelets(longest: float) -> None:
    enter = FakeKubelets.__aenter__

    async def enter_delayed(kubelets: FakeKubelets) -> FakeKubelets:
        kubelets.api.request = _delayed(kubelets.api.request, longest)
        return await enter(kubelets)

    FakeKubelets.__aenter__ = enter_delayed
