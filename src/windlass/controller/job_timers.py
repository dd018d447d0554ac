"""Times at which jobs need a `Timer` event."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from windlass.core.lifecycle.state_machine import next_due
from windlass.core.model.status import JobState

_SPARE_TIMERS = 64
"""Maximum number of outdated timers before they are removed."""


class JobTimers:
    """The timer of each job, which follows from its state; outdated ones are skipped when they come up."""

    def __init__(self, states: Mapping[str, JobState]) -> None:
        self._states = states
        self._timers: list[tuple[int, str]] = []

    def set(self, state: JobState, before: JobState | None = None) -> None:
        """Sets the timer of a job whose state was `before`."""
        due = next_due(state)
        if due is not None and (before is None or due != next_due(before)):
            heapq.heappush(self._timers, (due, state.id))

    def take_due(self, now: int) -> list[str]:
        """Removes the timers up to `now`, and returns their jobs, each once."""
        due: dict[str, None] = {}
        while self._timers and self._timers[0][0] <= now:
            at, job_id = heapq.heappop(self._timers)
            if self._is_current(at, job_id):
                due[job_id] = None
        return list(due)

    def next_due(self) -> int | None:
        """Time in ms of the next timer."""
        while self._timers and not self._is_current(*self._timers[0]):
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def remove_outdated(self) -> None:
        """Removes outdated timers if there are many."""
        if len(self._timers) > 2 * len(self._states) + _SPARE_TIMERS:
            timers = {(due, state.id) for state in self._states.values() if (due := next_due(state)) is not None}
            self._timers = sorted(timers)

    def _is_current(self, at: int, job_id: str) -> bool:
        state = self._states.get(job_id)
        return state is not None and next_due(state) == at


def earliest(*times: int | None) -> int | None:
    """The earliest of these times; None if there is none."""
    return min((at for at in times if at is not None), default=None)
