"""The save interval of a run: as configured, or adapted to the measured cost; warns if a configured one is far off."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from windlass.train.checkpoint.optimal_interval import IntervalSuggestion, suggest_interval
from windlass.train.checkpoint.run_history import RunHistory
from windlass.train.checkpoint.save_interval import AUTO, SaveInterval
from windlass.train.checkpoint.saver import SaveCost

_WINDOW_SAVES = 5
"""Number of saves whose median counts: the first one allocates memory, and some meet other traffic."""
_MIN_SAVES = 3
_MIN_INTERVAL_S, _MAX_INTERVAL_S = 30.0, 3600.0
"""Bounds of the adaptive interval, in seconds."""
_CHANGE_FACTOR, _REMARK_FACTOR = 1.5, 2.0
"""Factors of difference before a new interval is adopted, and before a configured one is remarked on."""
_REMARK_AFTER_S = 60.0
"""Seconds of training before any remark."""
_COST = "cost"


class AdaptiveInterval:
    """The save interval; that of rank 0 decides. `report` receives changes and their reasons."""

    def __init__(self, every: SaveInterval, history: RunHistory, report: Callable[[str], None]) -> None:
        self.every = every
        self._history, self._report = history, report
        self._begun = time.monotonic()
        self._costs: deque[SaveCost] = deque(maxlen=_WINDOW_SAVES)
        self._step = 0
        self._began: deque[float] = deque(maxlen=_WINDOW_SAVES + 1)
        self._remarked = False

    def facts(self, *, leaves: bool) -> dict[str, Any]:
        """Return facts for a manifest: the run's history, and the cost of the previous save."""
        facts = self._history.facts(time.monotonic() - self._begun, leaves=leaves)
        if self._costs:
            last = self._costs[-1]
            facts[_COST] = {"step": self._step, "stall": last.stall, "duration": last.duration, "size": last.size}
        return facts

    def note_start(self) -> None:
        """Note that a save has started."""
        self._began.append(time.monotonic())

    def note_cost(self, step: int, cost: SaveCost) -> None:
        """Note the measured cost of the save of a step; adapts the interval, or remarks on it."""
        self._costs.append(cost)
        self._step = step
        found = self._suggested()
        if self.every.is_adaptive:
            self._adopt(found)
        elif not self._remarked and len(self._costs) >= _MIN_SAVES and self._seconds() >= _REMARK_AFTER_S:
            self._remark(found)

    def _seconds(self) -> float:
        return time.monotonic() - self._begun

    def _suggested(self) -> IntervalSuggestion:
        stall = statistics.median(cost.stall for cost in self._costs)
        duration = statistics.median(cost.duration for cost in self._costs)
        found = suggest_interval(stall, duration, self._history.failures, self._history.trained + self._seconds())
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

    def _remark(self, found: IntervalSuggestion) -> None:
        asked = self.every.seconds or self._seconds_between()
        if asked and not 1 / _REMARK_FACTOR <= found.seconds / asked <= _REMARK_FACTOR:
            self._remarked = True
            self._report(
                f"checkpoints are saved every {format_span(asked)}, and "
                f'every="{format_span(found.seconds)}" (or "{AUTO}") would lose less: {found.why}'
            )

    def _seconds_between(self) -> float:
        """Return mean seconds between saves, for an interval in steps."""
        times = list(self._began)
        return (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 0.0


def format_span(seconds: float) -> str:
    """Format seconds as `every` takes them: "45s", "2m30s", "1h"."""
    whole = max(1, round(seconds))
    parts = ((whole // 3600, "h"), (whole // 60 % 60, "m"), (whole % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count)
