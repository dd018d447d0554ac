"""Adapts the save interval of a run to the measured cost of saves, or warns if a configured one is far from optimal."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from windlass.train.checkpoint.checkpoint_writer import SaveCost
from windlass.train.checkpoint.optimal_interval import IntervalSuggestion, suggest_interval
from windlass.train.checkpoint.run_history import RunHistory
from windlass.train.checkpoint.save_interval import AUTO, SaveInterval

_WINDOW_SAVES = 5
"""Number of saves whose median counts: the first one allocates memory, and other traffic slows some of them down."""
_MIN_SAVES = 3
_MIN_INTERVAL_S, _MAX_INTERVAL_S = 30.0, 3600.0
"""Bounds of the adaptive interval, in seconds."""
_CHANGE_FACTOR, _WARNING_FACTOR = 1.5, 2.0
"""Factors by which the optimum must differ: to adopt a new interval, and to warn about a configured one."""
_WARNING_AFTER_S = 60.0
"""Seconds of training before any warning."""
_COST = "cost"


class AdaptiveInterval:
    """The save interval of a rank; that of rank 0 counts. `report` receives changes and their reasons."""

    def __init__(self, every: SaveInterval, history: RunHistory, report: Callable[[str], None]) -> None:
        self.every = every
        self._history, self._report = history, report
        self._started_at = time.monotonic()
        self._costs: deque[SaveCost] = deque(maxlen=_WINDOW_SAVES)
        self._step = 0
        self._save_starts: deque[float] = deque(maxlen=_WINDOW_SAVES + 1)
        self._has_warned = False

    def facts(self, *, leaves: bool) -> dict[str, Any]:
        """Return the entries for a manifest: the run's history, and the cost of the previous save.

        `leaves`: whether the run ends cleanly after the save.
        """
        facts = self._history.facts(time.monotonic() - self._started_at, leaves=leaves)
        if self._costs:
            last = self._costs[-1]
            facts[_COST] = {"step": self._step, "stall": last.stall, "duration": last.duration, "size": last.size}
        return facts

    def note_start(self) -> None:
        """Note that a save has started."""
        self._save_starts.append(time.monotonic())

    def note_cost(self, step: int, cost: SaveCost) -> None:
        """Note the measured cost of the save of a step; adapts the interval, or warns about it."""
        self._costs.append(cost)
        self._step = step
        found = self._suggest()
        if self.every.is_adaptive:
            self._adopt(found)
        elif not self._has_warned and len(self._costs) >= _MIN_SAVES and self._elapsed_s() >= _WARNING_AFTER_S:
            self._warn(found)

    def _elapsed_s(self) -> float:
        """Return seconds since this start of the run."""
        return time.monotonic() - self._started_at

    def _suggest(self) -> IntervalSuggestion:
        stall = statistics.median(cost.stall for cost in self._costs)
        duration = statistics.median(cost.duration for cost in self._costs)
        found = suggest_interval(stall, duration, self._history.failures, self._history.trained + self._elapsed_s())
        taken = min(_MAX_INTERVAL_S, max(_MIN_INTERVAL_S, found.seconds))
        which = "at most" if taken > found.seconds else "at least"
        bound = "" if taken == found.seconds else f"; {which} one save every {format_span(taken)}"
        return IntervalSuggestion(taken, found.why + bound)

    def _adopt(self, found: IntervalSuggestion) -> None:
        now = self.every.seconds or _MIN_INTERVAL_S
        if len(self._costs) > 1 and 1 / _CHANGE_FACTOR < found.seconds / now < _CHANGE_FACTOR:
            return
        self.every = replace(self.every, seconds=found.seconds)
        self._report(f"checkpoints are saved every {format_span(found.seconds)} from now on: {found.why}")

    def _warn(self, found: IntervalSuggestion) -> None:
        current_s = self.every.seconds or self._seconds_between()
        if current_s and not 1 / _WARNING_FACTOR <= found.seconds / current_s <= _WARNING_FACTOR:
            self._has_warned = True
            self._report(
                f"checkpoints are saved every {format_span(current_s)}, and "
                f'every="{format_span(found.seconds)}" (or "{AUTO}") would lose less: {found.why}'
            )

    def _seconds_between(self) -> float:
        """Return mean seconds between saves, for an interval in steps."""
        times = list(self._save_starts)
        return (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 0.0


def format_span(seconds: float) -> str:
    """Format seconds as `every` takes them: "45s", "2m30s", "1h"."""
    whole = max(1, round(seconds))
    parts = ((whole // 3600, "h"), (whole // 60 % 60, "m"), (whole % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count)
