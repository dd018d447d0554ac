"""A backend whose turns are reported to observers: followers of events, metrics, the history of jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from windlass.backends.deferred_commits import committed
from windlass.backends.event_timeout import wait_for_event
from windlass.backends.port import Backend, BackendEvent, Changes, Recovery
from windlass.core.lifecycle.commands import Command
from windlass.core.model.status import JobState

_COMMIT_TIMEOUT_S = 1.0


class Observer:
    """Callbacks of one turn, in their order. They run in the controller's loop: they must not block and not raise."""

    def on_recovery(self, recovery: Recovery) -> None:
        """A controller takes over."""

    def on_turn_start(self) -> None:
        """Events have arrived."""

    def on_turn_end(self) -> None:
        """The controller has decided; its commit or its commands follow."""

    def on_commit_start(self, changes: Changes) -> None:
        """A commit starts. It may fail, and then starts again."""

    def on_commit_end(self, changes: Changes) -> None:
        """The changes are durable."""


class ObservedBackend:
    """Wrapper of a backend that calls its observers, in the order in which they are given."""

    def __init__(self, backend: Backend, *observers: Observer) -> None:
        self._backend, self._observers = backend, observers
        self._idle = asyncio.Event()
        self._idle.set()

    async def wait_for_commit(self) -> None:
        """Waits until no commit is under way, for at most a second: the API server may not answer."""
        await wait_for_event(self._idle, _COMMIT_TIMEOUT_S)

    def now(self) -> int:
        """Time of the backend's clock, in ms."""
        return self._backend.now()

    def recover(self) -> Recovery:
        """State of the backend, for a controller that takes over."""
        recovery = self._backend.recover()
        for observer in self._observers:
            observer.on_recovery(recovery)
        return recovery

    def finished(self, job_id: str) -> JobState | None:
        """A job that has ended, or None."""
        return self._backend.finished(job_id)

    async def wait(self, until: int | None) -> Sequence[BackendEvent]:
        """Events of the backend. A turn starts when it returns."""
        events = await self._backend.wait(until)
        for observer in self._observers:
            observer.on_turn_start()
        return events

    async def commit(self, changes: Changes) -> Mapping[str, str]:
        """Makes the changes durable; returns the jobs that could not be written. Raises BackendError."""
        for observer in self._observers:
            observer.on_turn_end()
            observer.on_commit_start(changes)
        self._idle.clear()
        try:
            failures = await self._backend.commit(changes)
            for observer in self._observers:
                observer.on_commit_end(committed(changes, failures))
            return failures
        finally:
            self._idle.set()

    def perform(self, commands: Sequence[Command]) -> None:
        """Starts to carry out the commands."""
        for observer in self._observers:
            observer.on_turn_end()
        self._backend.perform(commands)
