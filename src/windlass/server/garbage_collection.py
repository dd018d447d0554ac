"""Python's collector of cyclic garbage, in a process that plans."""

from __future__ import annotations

import gc

_NEW_OBJECTS = 20_000
"""Between two collections: more would save little, and what waits to be collected takes 3 to 30 MiB at that."""


def collect_rarely() -> None:
    """To be called once all is loaded and before the first plan; processes that are forked have it from their parent.

    A large plan makes hundreds of thousands of small objects that live as long as it does. As Python comes it looks
    through the young ones at every 700th and time and again through all, which cost a tenth of such a plan and more,
    and found next to nothing. Modules and what they define are looked at no more: they stay.
    """
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
