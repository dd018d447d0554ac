"""Waiting for something, but not for ever."""

from __future__ import annotations

import asyncio


async def comes(event: asyncio.Event, seconds: float | None) -> bool:
    """Whether it comes within so many seconds; None: however long that takes. One that is set has come."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
