"""Times as texts for people, in UTC: a reason or a line of history reads equally on every machine."""

from __future__ import annotations

import numpy as np

_LAST_S = 253_402_300_799
"""End of the year 9999, the last time that has a text, in seconds."""


def format_moment_utc(at: int) -> str:
    """Returns a time of the years 1970 to 9999 (ms since the epoch): "2026-11-28 08:00 UTC", with seconds if any."""
    moment = np.datetime64(min(max(at // 1000, 0), _LAST_S), "s")
    return str(moment).replace("T", " ").removesuffix(":00") + " UTC"
