"""Times as texts for people, in UTC: a reason or a line of history reads equally on every machine."""

from __future__ import annotations

from datetime import UTC, datetime

_LAST_MS = 253_402_300_799_000
"""End of the year 9999, the last time that has a text."""


def format_moment_utc(at: int) -> str:
    """Returns a time of the years 1970 to 9999 (ms since the epoch): "2026-11-28 08:00 UTC", with seconds if any."""
    moment = datetime.fromtimestamp(min(max(at, 0), _LAST_MS) / 1000, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}".removesuffix(":00") + " UTC"
