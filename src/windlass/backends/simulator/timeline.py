"""The simulated time: scheduled actions, and the events that a controller has not committed yet."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from heapq import heappop, heappush

from windlass.backends.port import BackendEvent, ClusterChanged

FIRST, THEN = 0, 1
"""Order of actions at one time: ends of gangs come first, then everything that follows or arrives."""


class Timeline:
    """Queue of future events and actions in virtual time. It outlives every controller.

    `schedule` schedules an action, `take` advances time. An event is kept until a controller has committed that it
    processed it.
    """

    def __init__(self, start: int) -> None:
        self.now = start
        self._scheduled: list[tuple[int, int, int, Callable[[], None]]] = []
        self._count = 0
        self._uncommitted: list[BackendEvent] = []
        """Events that were not committed; the first `delivered` of them were delivered."""
        self.delivered = 0
        """Number of events that were delivered and not committed."""
        self._repeats_commands = False
        """Whether a new controller repeats commands that its predecessor decided before a node was closed."""
        self._refused: list[BackendEvent] = []
        """Delivered events of jobs whose state was refused."""
        self._repeated = 0
        """Number of those events among the first uncommitted ones: a new controller is to hear of them again."""
        self.repeats_refused = False
        """Whether a new controller is yet to hear again of jobs whose state was refused. Until then it takes a job that
        has ended for running, beside a job that was admitted after it."""

    def schedule(self, at: int, action: Callable[[], None], rank: int = THEN) -> None:
        """Schedules an action at `at`, or now if that has passed."""
        self._count += 1
        heappush(self._scheduled, (max(at, self.now), rank, self._count, action))

    def report(self, event: BackendEvent) -> None:
        """Queues an event for the controller."""
        self._uncommitted.append(event)

    def report_once(self, event: BackendEvent) -> None:
        """Queues an event if no equal one waits for its commit."""
        if event not in self._uncommitted:
            self.report(event)

    @property
    def is_outdated(self) -> bool:
        """Tells whether the controller decided its commands before the last change of the nodes."""
        return self._repeats_commands or any(isinstance(event, ClusterChanged) for event in self._uncommitted)

    def arrive(self, at: int, event: BackendEvent) -> None:
        """Schedules an event from outside: a job, or a request about one."""
        self.schedule(at, partial(self.report, event))

    @property
    def over(self) -> bool:
        """Tells whether no action is scheduled any more."""
        return not self._scheduled and self.delivered == len(self._uncommitted)

    def take(self, until: int | None) -> list[BackendEvent]:
        """Advances time until there are events, or until `until`. Returns the events."""
        while self.delivered == len(self._uncommitted):
            following = self._scheduled[0] if self._scheduled else None
            if following is None or (until is not None and following[0] > until):
                self.now = max(self.now, until or 0)
                return []
            self._advance_to(following[0], following[1])
        self._repeats_commands = self.repeats_refused = False
        events = self._uncommitted[self.delivered :]
        self.delivered = len(self._uncommitted)
        return events

    def _advance_to(self, at: int, rank: int) -> None:
        self.now = at
        while self._scheduled and self._scheduled[0][:2] == (at, rank):
            heappop(self._scheduled)[3]()

    def acknowledge(self, events: int, refused: Collection[str] = ()) -> None:
        """Removes the first `events` delivered events: they were committed, except those of `refused` jobs."""
        done = self._uncommitted[:events]
        del self._uncommitted[:events]
        self.delivered -= events
        self._repeated = max(0, self._repeated - events)
        if self._refused or refused:
            self._refused = [event for event in (*self._refused, *done) if getattr(event, "job_id", "") in refused]

    def redeliver_all(self) -> None:
        """Marks all events as undelivered, for a new controller."""
        self._uncommitted[:0] = self._refused
        self._repeated += len(self._refused)
        self.repeats_refused = bool(self._repeated)
        self._refused.clear()
        self.delivered = 0
        self._repeats_commands = True
