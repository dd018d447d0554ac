"""Waiting for something, but not for ever."""

from __future__ import annotations

import asyncio

import pytest

from windlass.backends.waiting import comes


def test_what_comes_in_time_came() -> None:
    async def story() -> list[bool]:
        event = asyncio.Event()
        asyncio.get_running_loop().call_later(0.01, event.set)
        return [await comes(event, None), await comes(event, 0), await comes(event, -1)]

    assert asyncio.run(story()) == [True, True, True]


def test_what_does_not_come_is_not_waited_for_longer() -> None:
    async def story() -> list[bool]:
        return [await comes(asyncio.Event(), seconds) for seconds in (-1, 0, 0.01)]

    assert asyncio.run(story()) == [False, False, False]


def test_whoever_waits_can_be_cancelled() -> None:
    async def story() -> None:
        waits = asyncio.create_task(comes(asyncio.Event(), 60))
        await asyncio.sleep(0)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits

    asyncio.run(story())
