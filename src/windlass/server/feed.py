"""Who follows what happens: every commit wakes those whom it concerns."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from windlass.backends.port import Backend, Changes, Recovery, WorldEvent
from windlass.core.lifecycle.commands import Command
from windlass.core.model.status import JobState


class Feed:
    """One event for each follower, set at each commit, and at the end."""

    def __init__(self) -> None:
        self.closed = False
        self.trouble = ""
        """Why nothing can be committed just now, "" if it can."""
        self._waiting: set[asyncio.Event] = set()

    def announce(self) -> None:
        """Something was committed."""
        self.trouble = ""
        self._wake()

    def complain(self, trouble: str) -> None:
        """A commit failed, and is tried again."""
        self.trouble = trouble
        self._wake()

    def _wake(self) -> None:
        for event in self._waiting:
            event.set()

    def close(self) -> None:
        """Nothing will be committed any more: followers leave."""
        self.closed = True
        self._wake()

    def join(self) -> asyncio.Event:
        """A follower's event, set whenever there may be news; the follower clears it."""
        event = asyncio.Event()
        self._waiting.add(event)
        return event

    def leave(self, event: asyncio.Event) -> None:
        """The follower is gone."""
        self._waiting.discard(event)


class Watched:
    """A world whose commits are announced."""

    def __init__(self, world: Backend, feed: Feed) -> None:
        self._world = world
        self._feed = feed

    def now(self) -> int:
        """As the world says."""
        return self._world.now()

    def recover(self) -> Recovery:
        """As the world does."""
        return self._world.recover()

    def finished(self, job_id: str) -> JobState | None:
        """As the world knows."""
        return self._world.finished(job_id)

    async def wait(self, until: int | None) -> Sequence[WorldEvent]:
        """As the world does."""
        return await self._world.wait(until)

    async def commit(self, changes: Changes) -> None:
        """Make it durable, then tell of it. Raises WorldError."""
        await self._world.commit(changes)
        self._feed.announce()

    def perform(self, commands: Sequence[Command]) -> None:
        """As the world does."""
        self._world.perform(commands)
