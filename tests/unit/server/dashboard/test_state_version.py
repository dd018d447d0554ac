"""The version grows with the first commit at once, and with the commits shortly after it once."""

import asyncio

from windlass.backends.port import Changes
from windlass.server.dashboard.state_version import StateVersion
from windlass.server.feed import EventFeed


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def _numbers_after_commits() -> list[int]:
    feed = EventFeed()
    version = StateVersion(feed)
    counting = asyncio.create_task(version.run())
    await _settle()
    numbers = []
    for _ in range(3):
        feed.on_commit_end(Changes())
        await _settle()
        numbers.append(version.number)
    counting.cancel()
    return numbers


def test_the_first_of_several_commits_is_shown_at_once() -> None:
    assert asyncio.run(_numbers_after_commits()) == [2, 2, 2]
