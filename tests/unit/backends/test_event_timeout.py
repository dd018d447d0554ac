"""Waiting for an asyncio event with a timeout."""

from __future__ import annotations

import asyncio

import pytest

from windlass.backends.event_timeout import wait_for_event


def test_an_event_that_is_set_in_time_is_reported() -> None:
    async def scenario() -> list[bool]:
        event = asyncio.Event()
        asyncio.get_running_loop().call_later(0.01, event.set)
        return [await wait_for_event(event, None), await wait_for_event(event, 0), await wait_for_event(event, -1)]

    assert asyncio.run(scenario()) == [True, True, True]


def test_a_wait_ends_after_its_timeout() -> None:
    async def scenario() -> list[bool]:
        return [await wait_for_event(asyncio.Event(), seconds) for seconds in (-1, 0, 0.01)]

    assert asyncio.run(scenario()) == [False, False, False]


def test_a_wait_can_be_cancelled() -> None:
    async def scenario() -> None:
        waits = asyncio.create_task(wait_for_event(asyncio.Event(), 60))
        await asyncio.sleep(0)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits

    asyncio.run(scenario())
