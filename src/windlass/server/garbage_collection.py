"""Settings of Python's cyclic garbage collector for processes that plan."""

from __future__ import annotations

import gc

_NEW_OBJECTS = 20_000
"""Number of new objects between two collections. More save little; garbage takes 3 to 30 MiB at this one."""


def collect_rarely() -> None:
    """Collects garbage rarely. Call it after all imports and before the first plan; forked processes inherit it.

    A large plan makes hundreds of thousands of small objects that live as long as the plan. With Python's defaults a
    collection of young objects runs at every 700th and full collections run repeatedly: a tenth of the plan's time and
    more, for almost no garbage. Modules and their definitions are frozen, so that collections skip them.
    """
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
