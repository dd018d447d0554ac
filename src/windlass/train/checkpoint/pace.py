"""How often a run saves: as it was asked to, or as saves cost; and whether the one is far from the other."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from windlass.train.checkpoint.due import AUTO, Every
from windlass.train.checkpoint.history import History
from windlass.train.checkpoint.interval import Suggestion, suggested
from windlass.train.checkpoint.saver import Cost

_KEPT = 5
"""Saves whose median counts: the first one makes room, and some meet with traffic."""
_ENOUGH = 3
_SHORTEST, _LONGEST = 30.0, 3600.0
"""Seconds: what is found by cost stays between them."""
_ANOTHER, _FAR = 1.5, 2.0
"""Times by which what is found differs, before it is taken, and before what was asked for is remarked on."""
_QUIET = 60.0
"""Seconds of training before anything is remarked."""
_COST = "cost"


class Pace:
    """Rank 0's decides. `tell` says what changes, and why."""

    def __init__(self, every: Every, history: History, tell: Callable[[str], None]) -> None:
        self.every = every
        self._history, self._tell = history, tell
        self._begun = time.monotonic()
        self._costs: deque[Cost] = deque(maxlen=_KEPT)
        self._step = 0
        self._began: deque[float] = deque(maxlen=_KEPT + 1)
        self._remarked = False

    def facts(self, *, leaves: bool) -> dict[str, Any]:
        """For a manifest: what the run has been through, and what the save before this one cost."""
        told = self._history.facts(time.monotonic() - self._begun, leaves=leaves)
        if self._costs:
            last = self._costs[-1]
            told[_COST] = {"step": self._step, "stall": last.stall, "duration": last.duration, "size": last.size}
        return told

    def saves(self) -> None:
        """A save is begun."""
        self._began.append(time.monotonic())

    def cost(self, step: int, cost: Cost) -> None:
        """What the save of a step was measured to cost; the interval follows, or a remark."""
        self._costs.append(cost)
        self._step = step
        found = self._suggested()
        if self.every.by_cost:
            self._take(found)
        elif not self._remarked and len(self._costs) >= _ENOUGH and self._seconds() >= _QUIET:
            self._remark(found)

    def _seconds(self) -> float:
        return time.monotonic() - self._begun

    def _suggested(self) -> Suggestion:
        stall = statistics.median(cost.stall for cost in self._costs)
        duration = statistics.median(cost.duration for cost in self._costs)
        found = suggested(stall, duration, self._history.failures, self._history.trained + self._seconds())
        taken = min(_LONGEST, max(_SHORTEST, found.seconds))
        which = "at most" if taken > found.seconds else "at least"
        bound = "" if taken == found.seconds else f"; {which} one every {span(taken)} is made"
        return Suggestion(taken, found.why + bound)

    def _take(self, found: Suggestion) -> None:
        now = self.every.seconds or _SHORTEST
        if len(self._costs) > 1 and 1 / _ANOTHER < found.seconds / now < _ANOTHER:
            return
        self.every = replace(self.every, seconds=found.seconds)
        self._tell(f"checkpoints are saved every {span(found.seconds)} from here on: {found.why}")

    def _remark(self, found: Suggestion) -> None:
        asked = self.every.seconds or self._between()
        if asked and not 1 / _FAR <= found.seconds / asked <= _FAR:
            self._remarked = True
            self._tell(
                f'checkpoints are saved every {span(asked)}, and every="{span(found.seconds)}" (or "{AUTO}") would '
                f"lose less: {found.why}"
            )

    def _between(self) -> float:
        """Seconds from one save to the next, where they are counted in steps."""
        times = list(self._began)
        return (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 0.0


def span(seconds: float) -> str:
    """As `every` takes it: "45s", "2m30s", "1h"."""
    whole = max(1, round(seconds))
    parts = ((whole // 3600, "h"), (whole // 60 % 60, "m"), (whole % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count)
