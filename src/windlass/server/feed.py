"""Notification of followers: every commit wakes all of them."""

from __future__ import annotations

import asyncio

from windlass.backends.port import Changes
from windlass.server.observed_backend import Observer


class Feed(Observer):
    """One asyncio event for each follower, set at each commit, at each failed commit and at the end."""

    def __init__(self) -> None:
        self.closed = False
        self.trouble = ""
        """Reason why no commit succeeds at present; empty if commits succeed."""
        self._waiting: set[asyncio.Event] = set()

    def on_commit_end(self, changes: Changes) -> None:  # noqa: ARG002 - followers read what they need
        """Wake the followers after a successful commit."""
        self.trouble = ""
        self._wake()

    def complain(self, trouble: str) -> None:
        """Record that a commit has failed and is being repeated, and wake the followers."""
        self.trouble = trouble
        self._wake()

    def _wake(self) -> None:
        for event in self._waiting:
            event.set()

    def close(self) -> None:
        """Make the followers leave: no commit will follow."""
        self.closed = True
        self._wake()

    def join(self) -> asyncio.Event:
        """An event for a new follower, set whenever there may be news. The follower clears it."""
        event = asyncio.Event()
        self._waiting.add(event)
        return event

    def leave(self, event: asyncio.Event) -> None:
        """Remove a follower."""
        self._waiting.discard(event)
