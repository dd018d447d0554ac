"""Reads and writes timestamps as users write them, in integer milliseconds since the Unix epoch."""

from __future__ import annotations

import re
from contextlib import suppress

PATTERN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2})?(\.[0-9]{1,6})?(Z|[-+][0-9]{2}:[0-9]{2})?)?$"
MAX_MOMENT = 253_402_300_799_000
"""End of the year 9999."""
_EXAMPLE = "2026-11-22T08:00 (this machine's clock) or 2026-11-22T08:00Z"


def parse_moment(text: str) -> int:
    """A timestamp; without a zone, in this machine's local time. Raises ValueError with a text that shows the form."""
    from datetime import datetime  # noqa: PLC0415 - a job from the command line has no moments

    plain = text.strip()
    if re.fullmatch(PATTERN[1:-1], plain):
        with suppress(ValueError, OverflowError, OSError):  # no such day, or outside of the supported range
            return round(datetime.fromisoformat(plain).astimezone().timestamp() * 1000)
    raise ValueError(f"expects a time such as {_EXAMPLE}, not {text[:40]!r}")


def format_moment(at: int) -> str:
    """The timestamp in UTC: the inverse of `parse_moment`."""
    from datetime import UTC, datetime  # noqa: PLC0415 - see above

    return datetime.fromtimestamp(at / 1000, UTC).isoformat().replace("+00:00", "Z")
