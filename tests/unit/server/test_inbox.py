"""A wait for events ends when it is cancelled, also while an event arrives."""

from __future__ import annotations

import asyncio

import pytest

from windlass.backends.inbox import Inbox


@pytest.mark.parametrize("steps", range(4))
def test_a_wait_is_cancelled_even_while_an_event_arrives(steps: int) -> None:
    async def story() -> None:
        inbox = Inbox()
        waiting = asyncio.create_task(inbox.wait(60))
        await asyncio.sleep(0)
        inbox.wake()
        for _ in range(steps):
            if not waiting.done():
                await asyncio.sleep(0)
        was_done = waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert was_done or waiting.cancelled()

    asyncio.run(story())


def test_a_wait_ends_at_its_timeout() -> None:
    asyncio.run(Inbox().wait(0.001))
    asyncio.run(Inbox().wait(0))
