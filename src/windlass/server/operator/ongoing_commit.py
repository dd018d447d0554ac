"""The commit that is under way, for queries that show jobs as they were last committed."""

from __future__ import annotations

import asyncio

from windlass.backends.event_timeout import wait_for_event
from windlass.backends.port import Changes
from windlass.controller.observer import Observer

_COMMIT_TIMEOUT_S = 1.0


class OngoingCommit(Observer):
    """Observer that tells when no commit is under way."""

    def __init__(self) -> None:
        self._idle = asyncio.Event()
        self._idle.set()

    async def wait(self) -> None:
        """Waits until no commit is under way, for at most a second: the API server may not answer."""
        await wait_for_event(self._idle, _COMMIT_TIMEOUT_S)

    def on_commit_start(self, changes: Changes) -> None:  # noqa: ARG002 - every commit counts
        """A commit is under way."""
        self._idle.clear()

    def on_commit_failed(self) -> None:
        """No commit is under way until the next attempt."""
        self._idle.set()

    def on_commit_end(self, changes: Changes) -> None:  # noqa: ARG002 - every commit counts
        """No commit is under way."""
        self._idle.set()
