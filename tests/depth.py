"""The number of examples of a property test: few in `make test`, many in `make soak`.

A property says how many examples it needs at full depth; `WINDLASS_DEPTH` is a percentage of that number.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

PERCENT = int(os.environ.get("WINDLASS_DEPTH", "25"))
"""25 in `make test`, 1000 in `make soak`."""
FEWEST = 10


def examples(full: int) -> int:
    """The number of examples to draw for a property that needs `full` at 100 %."""
    return max(min(full, FEWEST), full * PERCENT // 100)


def depth(full: int, *suppressed: HealthCheck, **others: Any) -> settings:
    """Hypothesis settings with that number of examples, and without checks of how long one takes on this machine."""
    checks = [HealthCheck.too_slow, *suppressed]
    return settings(max_examples=examples(full), deadline=None, suppress_health_check=checks, **others)


def use_depth_by_default() -> None:
    """Applies `depth(100)` to properties without settings of their own."""
    settings.register_profile("windlass", depth(100))
    settings.load_profile("windlass")
