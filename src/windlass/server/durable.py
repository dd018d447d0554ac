"""Waiting until what was asked for is on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from windlass.server.errors import ApiError, Code
from windlass.server.feed import Feed


def check_open(feed: Feed) -> None:
    """Raises ApiError while nothing can be promised to anybody."""
    if feed.closed:
        raise ApiError(Code.NO_DAEMON, "the daemon is leaving", "ask again")
    if feed.trouble:
        raise ApiError(Code.DISK, feed.trouble)


async def durable(feed: Feed, promises: Sequence[asyncio.Future[None]]) -> None:
    """Until all of it is. Raises ApiError if the disk will not have it."""
    news = feed.join()
    promises[-1].add_done_callback(lambda _done: news.set())
    try:
        while not all(promise.done() for promise in promises):
            news.clear()
            check_open(feed)
            await news.wait()
    finally:
        feed.leave(news)
