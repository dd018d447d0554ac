"""Waits for an asyncio event with a timeout."""

from __future__ import annotations

import asyncio


async def wait_for_event(event: asyncio.Event, seconds: float | None) -> bool:
    """Waits until the event is set, at most `seconds` (None: without limit). Returns whether it is set."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
