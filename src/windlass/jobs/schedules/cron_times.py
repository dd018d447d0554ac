"""Times of a cron expression in a time zone. CronSim parses the expression and applies the rules of Debian's cron.

Times in the hour that a change to summer time skips move to its end; times in the hour that a change to winter time
repeats occur once. An expression whose minute or hour starts with a star follows elapsed time and has no such rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS = 5
_MAX_LENGTH = 200
_ZONE = r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,3}"
_YEAR_2000_MS = 946_684_800_000
_HOUR_MS = 3_600_000
_WINDOWS_MS = (_HOUR_MS, 24 * _HOUR_MS, 32 * 24 * _HOUR_MS, 366 * 24 * _HOUR_MS)
"""Spans before a time in which the last due time is searched, the shortest first."""


def read_cron(text: str) -> str:
    """The expression with single spaces. Raises ValueError with a text that follows "cron"."""
    words = text.split()
    fields = _MACROS.get(text.strip().lower(), " ".join(words))
    if "=" in text:
        raise ValueError("expects no variables; write the time zone in time_zone (--time-zone)")
    if not text.isascii() or len(text) > _MAX_LENGTH or len(fields.split()) != _FIELDS:
        raise ValueError(
            f'expects five fields (minute hour day month weekday) such as "0 3 * * *", or @daily, not {text[:40]!r}'
        )
    try:
        first = next(_simulate(fields, datetime.fromtimestamp(_YEAR_2000_MS / 1000, UTC)), None)
    except (CronSimError, ValueError, AssertionError, TypeError) as error:
        raise ValueError(f'expects a cron expression such as "0 3 * * *", not {text[:40]!r}: {error}') from None
    if first is None:
        raise ValueError(f"expects an expression with at least one time; {text[:40]!r} never occurs")
    return " ".join(words)


def read_time_zone(text: str) -> str:
    """The name of a time zone. Raises ValueError with a text that follows "time_zone"."""
    try:
        if re.fullmatch(_ZONE, text):
            return ZoneInfo(text).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise ValueError(f"expects a name of the time zone database such as Europe/Berlin or UTC, not {text[:40]!r}")


def times_after(cron: str, time_zone: str, after: int) -> Iterator[int]:
    """Due times later than `after`, ascending, in ms."""
    expression = _MACROS.get(cron.lower(), cron)
    last = after
    for moment in _simulate(expression, datetime.fromtimestamp(after // 1000, ZoneInfo(time_zone))):
        time = int(moment.timestamp()) * 1000
        if time > last:  # a start within the repeated hour yields times of its first pass again
            last = time
            yield time


@lru_cache(maxsize=4096)
def next_time(cron: str, time_zone: str, after: int) -> int | None:
    """The first due time later than `after`; None if there is none within 50 years."""
    return next(times_after(cron, time_zone, after), None)


def last_time(cron: str, time_zone: str, after: int, until: int) -> int | None:
    """The last due time later than `after` and not later than `until`; None if there is none."""
    first = next_time(cron, time_zone, after)
    if first is None or first > until:
        return None
    for window in (*_WINDOWS_MS, until - after):
        start = max(after, until - window)
        found = None
        for found in takewhile(lambda time: time <= until, times_after(cron, time_zone, start)):  # noqa: B007 - the last
            pass
        if found is not None:
            return found
    return first


def count_times(cron: str, time_zone: str, after: int, until: int, most: int) -> int:
    """The number of due times later than `after` and not later than `until`; at most `most`."""
    times = takewhile(lambda time: time <= until, times_after(cron, time_zone, after))
    return sum(1 for _ in islice(times, most))


def format_time(time: int, time_zone: str) -> str:
    """A time in its zone, in minutes: "2026-03-29 03:00 CEST"."""
    return f"{datetime.fromtimestamp(time / 1000, ZoneInfo(time_zone)):%Y-%m-%d %H:%M %Z}"


def _simulate(expression: str, start: datetime) -> Iterator[datetime]:
    yield from CronSim(expression, start)
