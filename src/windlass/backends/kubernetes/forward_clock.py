"""Time that goes on from leader to leader, whatever their clocks say."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from windlass.core.model.status import JobState


class ForwardClock:
    """Milliseconds since the Unix epoch that never go back.

    What `source` has gone back, or is behind of an earlier leader's, is added from then on: time that stood still until
    it had caught up would hold up everything that waits for a time.
    """

    def __init__(self, source: Callable[[], int]) -> None:
        self._source = source
        self._lead = self._last = 0

    def now(self) -> int:
        """What time it is."""
        read = self._source()
        self._lead = max(self._lead, self._last - read)
        self._last = read + self._lead
        return self._last

    def pass_by(self, moment: int) -> None:
        """It is later than this, by another's clock."""
        self._last = max(self._last, moment)


def latest(states: Iterable[JobState]) -> int:
    """The last moment that any of these speaks of."""
    times = (
        getattr(state.status, name)
        for state in states
        for name in ("created_at", "queued_at", "admitted_at", "running_since", "stopping_since", "finished_at")
    )
    return max((at for at in times if at is not None), default=0)
