"""A world whose turns are told to history, to metrics, and to those who follow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from windlass.backends.port import Backend, Changes, Recovery, WorldEvent
from windlass.backends.waiting import comes
from windlass.core.lifecycle.commands import Command
from windlass.core.model.status import JobState
from windlass.server.feed import Feed
from windlass.server.operator.history.recorder import HistoryRecorder
from windlass.server.operator.metrics import OperatorMetrics

_PATIENCE = 1.0
"""Seconds."""


class Tapped:
    """`worlds.port.World` around another. What is told costs the controller no waiting."""

    def __init__(self, world: Backend, feed: Feed, chronicle: HistoryRecorder, metrics: OperatorMetrics) -> None:
        self._world, self._feed, self._chronicle, self._metrics = world, feed, chronicle, metrics
        self._began: float | None = None
        """When the turn began that is under way."""
        self.decided: Callable[[], object] = lambda: None
        """The last plan: another one is told by being another object."""
        self._seen: object = None
        self._idle = asyncio.Event()
        self._idle.set()

    async def settled(self) -> None:
        """Until no commit is under way; not for long, when the API server does not answer."""
        await comes(self._idle, _PATIENCE)

    def now(self) -> int:
        """As the world says."""
        return self._world.now()

    def recover(self) -> Recovery:
        """As the world does."""
        recovery = self._world.recover()
        self._chronicle.begin(recovery)
        return recovery

    def finished(self, job_id: str) -> JobState | None:
        """As the world knows."""
        return self._world.finished(job_id)

    async def wait(self, until: int | None) -> Sequence[WorldEvent]:
        """As the world does; a turn begins when it returns."""
        events = await self._world.wait(until)
        self._began = time.monotonic()
        return events

    async def commit(self, changes: Changes) -> None:
        """Make it durable, then tell of it. Raises WorldError."""
        self._end_turn()
        looks = self._chronicle.look(changes)
        began = time.monotonic()
        self._idle.clear()
        try:
            await self._world.commit(changes)
            self._chronicle.note(changes, looks)
        finally:
            self._idle.set()
        self._metrics.commits.observe(time.monotonic() - began)
        self._metrics.count(changes)
        self._feed.announce()

    def perform(self, commands: Sequence[Command]) -> None:
        """As the world does."""
        self._end_turn()
        self._world.perform(commands)

    def _end_turn(self) -> None:
        if self._began is None:
            return
        seconds, self._began = time.monotonic() - self._began, None
        self._metrics.turns.observe(seconds)
        if (decided := self.decided()) is not self._seen:
            self._seen = decided
            self._metrics.plans.observe(seconds)
