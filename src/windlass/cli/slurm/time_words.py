"""Times as options of Slurm write them: "2026-11-27T08:00", "1127", "now-2hours", "midnight"."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

_NOW = re.compile(r"now(?:([+-])([0-9]{1,6})(second|minute|hour|day|week)?s?)?")
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?(?:\s*([AaPp])[Mm])?")
_WORDS = {"today": 0, "midnight": 0, "noon": 12, "fika": 15, "teatime": 16}
"""Word → hour of the day."""
_FORMATS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%m/%d/%y")
_DAY = re.compile(r"([0-9]{2})[/.]?([0-9]{2})(?:[/.]?([0-9]{2}))?")
"""Month, day and perhaps year."""


def parse_time(text: str, now: datetime) -> int:
    """A local time in ms since the epoch. Raises ValueError."""
    found = _read(text.strip(), now)
    if found is None:
        raise ValueError(f"expects a time such as 2026-11-27T08:00, 08:00 or now-2hours, not {text[:40]!r}")
    return int(found.timestamp() * 1000)


def _read(text: str, now: datetime) -> datetime | None:
    word, today = text.lower(), now.replace(hour=0, minute=0, second=0, microsecond=0)
    if relative := _NOW.fullmatch(word):
        amount = int(relative[2] or 0) * (-1 if relative[1] == "-" else 1)
        return now + timedelta(**{f"{relative[3] or 'second'}s": amount})
    if word in _WORDS:
        return today + timedelta(hours=_WORDS[word])
    if clock := _CLOCK.fullmatch(text):
        return _at(today, clock)
    if day := _DAY.fullmatch(text):
        text = f"{day[1]}/{day[2]}/{day[3] or f'{now:%y}'}"
    return next((found for form in _FORMATS if (found := _as(form, text)) is not None), None)


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
