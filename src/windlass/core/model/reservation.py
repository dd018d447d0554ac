"""A declared reservation of nodes for a time: an advance reservation, or a maintenance window."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reservation:
    """Whole nodes that are kept from `start` until `end` (ms since the Unix epoch) for the named queues and users.

    Without queues and users it admits no job: maintenance. Jobs that would still run at `start` do not begin there.
    """

    name: str
    nodes: tuple[str, ...]
    start: int
    end: int
    queues: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    reason: str = ""

    def admits(self, queue: str, user: str) -> bool:
        """Tells whether a job of this queue and user may use it."""
        return queue in self.queues or user in self.users

    def keeps_out(self, queue: str, user: str, start: int, end: int | None) -> bool:
        """Tells whether it excludes such a job at any time from `start` to `end` (ms; None: for ever)."""
        return self.end > start and (end is None or self.start < end) and not self.admits(queue, user)
