"""Times as options of Slurm write them: "2026-11-27T08:00", "1127", "now-2hours", "midnight", "tomorrow".

A time of the day, or a day without a year, is the nearest one: the next for the begin of a job, otherwise that of today
or of this year. Hours and days from now are equally long where clocks change, as in Slurm.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

_NOW = re.compile(r"now(?:([+-])([0-9]{1,6})(second|minute|hour|day|week)?s?)?")
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?(?:\s*([AaPp])[Mm])?")
_EPOCH = re.compile(r"uts([0-9]{7,11})")
"""Seconds since the epoch, a form of Slurm without a time zone."""
_HOURS = {"midnight": 0, "elevenses": 11, "noon": 12, "fika": 15, "teatime": 16}
"""Word → hour of the day."""
_DAYS = {"today": 0, "tomorrow": 1}
"""Word → days from today."""
_FORMATS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%m/%d/%y")
_DAY = re.compile(r"([0-9]{2})[/.]?([0-9]{2})(?:[/.]?([0-9]{2}))?")
"""Month, day and perhaps year."""


def parse_time(text: str, now: datetime, *, upcoming: bool = False) -> int:
    """A local time in ms since the epoch. `upcoming`: "08:00" is the next one. Raises ValueError."""
    try:
        found = _read(text.strip(), now, upcoming=upcoming)
        if found is not None:
            return int(found.timestamp() * 1000)
    except (OverflowError, OSError):
        pass  # outside of the supported range
    example = "now+2hours" if upcoming else "now-2hours"
    raise ValueError(f"expects a time such as 2026-11-27T08:00, 08:00 or {example}, not {text[:40]!r}")


def format_epoch(at: int) -> str:
    """A time in ms as Slurm reads it in every time zone, in whole seconds, rounded up."""
    return f"uts{-(-at // 1000):07}"


def _read(text: str, now: datetime, *, upcoming: bool) -> datetime | None:
    word, today = text.lower(), now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    if relative := _NOW.fullmatch(word):
        amount = int(relative[2] or 0) * (-1 if relative[1] == "-" else 1)
        passed = timedelta(**{f"{relative[3] or 'second'}s": amount})
        return datetime.fromtimestamp(now.timestamp() + passed.total_seconds())  # noqa: DTZ006 - local time, as all others
    if seconds := _EPOCH.fullmatch(word):
        return datetime.fromtimestamp(int(seconds[1]))  # noqa: DTZ006 - local time, as all others
    if word in _DAYS:
        return today + timedelta(days=_DAYS[word])
    clock = _CLOCK.fullmatch(f"{_HOURS[word]}:00" if word in _HOURS else text)
    if clock is not None:
        at = _at(today, clock)
        return _next(at, now) if at is not None and upcoming else at
    if day := _DAY.fullmatch(text):
        at = _as("%m/%d/%y", f"{day[1]}/{day[2]}/{day[3] or f'{now:%y}'}")
        is_over = upcoming and not day[3] and at is not None and at < today
        return _as("%m/%d/%Y", f"{day[1]}/{day[2]}/{now.year + 1}") if is_over else at
    return next((found for form in _FORMATS if (found := _as(form, text)) is not None), None)


def _next(at: datetime, now: datetime) -> datetime:
    """The next time of this clock: today, also as the second of two where clocks go back, or tomorrow."""
    of_today = (at, at.replace(fold=1))
    return next((each for each in of_today if each.timestamp() > now.timestamp()), at + timedelta(days=1))


def _at(day: datetime, clock: re.Match[str]) -> datetime | None:
    hour, minute, second = (int(part or 0) for part in clock.groups()[:3])
    if clock[4]:
        hour = hour % 12 + (12 if clock[4].lower() == "p" else 0)
    return day.replace(hour=hour, minute=minute, second=second) if hour < 24 and minute < 60 and second < 60 else None


def _as(form: str, text: str) -> datetime | None:
    try:
        return datetime.strptime(text, form)  # noqa: DTZ007 - local time, as Slurm reads it
    except ValueError:
        return None
