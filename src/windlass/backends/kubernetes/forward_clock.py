"""Clock that never goes back from leader to leader, whatever the clocks of their nodes show."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from windlass.core.model.status import JobState


class ForwardClock:
    """Milliseconds since the Unix epoch that never go back.

    If `source` goes back, or is behind an earlier leader's clock, the difference is added from then on: a clock that
    stood still until `source` had caught up would delay everything that waits for a time.
    """

    def __init__(self, source: Callable[[], int]) -> None:
        self._source = source
        self._lead = self._last = 0

    def now(self) -> int:
        """Returns the present time."""
        read = self._source()
        self._lead = max(self._lead, self._last - read)
        self._last = read + self._lead
        return self._last

    def pass_by(self, moment: int) -> None:
        """Advances the clock to a moment of another clock."""
        self._last = max(self._last, moment)


def latest(states: Iterable[JobState]) -> int:
    """Returns the latest time in any of these states."""
    times = (
        getattr(state.status, name)
        for state in states
        for name in (
            "created_at",
            "queued_at",
            "admitted_at",
            "running_since",
            "stopping_since",
            "ended_at",
            "finished_at",
        )
    )
    return max((at for at in times if at is not None), default=0)
