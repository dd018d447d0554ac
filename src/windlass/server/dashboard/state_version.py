"""Version of the controller's state as pages see it: grows with commits, at most twenty times a second."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from windlass.backends.event_timeout import wait_for_event
from windlass.server.feed import EventFeed

_COALESCING_S = 0.05
_TICK_S = 2.0
"""Interval of versions without a commit: progress of ranks and ages change without one."""
MAX_FOLLOWERS = 500


class StateVersion:
    """The number, and the pages that wait for the next one. `run` keeps it up to date."""

    def __init__(self, feed: EventFeed) -> None:
        self._feed = feed
        self.number = 1
        self._followers: set[asyncio.Event] = set()

    async def run(self) -> None:
        """Counts until the feed closes. Without followers nothing wakes it but commits."""
        news = self._feed.join()
        try:
            while not self._feed.closed:
                await wait_for_event(news, _TICK_S)
                news.clear()
                self.number += 1
                for follower in self._followers:
                    follower.set()
                await asyncio.sleep(_COALESCING_S)  # the first of several commits is shown at once
        finally:
            self._feed.leave(news)
            for follower in self._followers:
                follower.set()

    async def follow(self, seen: int) -> AsyncGenerator[int]:
        """Yields each version after `seen` until the feed closes; versions in between are skipped."""
        event = asyncio.Event()
        self._followers.add(event)
        try:
            while not self._feed.closed:
                event.clear()
                if self.number != seen:
                    seen = self.number
                    yield seen
                await wait_for_event(event, None)
        finally:
            self._followers.discard(event)

    @property
    def is_full(self) -> bool:
        """Whether no further page may follow."""
        return len(self._followers) >= MAX_FOLLOWERS
