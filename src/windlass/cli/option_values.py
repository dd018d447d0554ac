"""Parses durations and times of options that are not fields of a job, by the same rules as in job files."""

from __future__ import annotations

import re
import time

from windlass.cli.errors import UsageError
from windlass.jobs.syntax.durations import UNITS, parse_duration
from windlass.jobs.syntax.timestamps import parse_moment


def parse_duration_option(option: str, text: str) -> int:
    """Returns a duration in ms. Raises UsageError."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option} {error}") from None


def parse_time_option(option: str, text: str, now: int) -> int:
    """Returns a time in ms: "now", "2h" from now, the next "22:00" of this machine, or a date. Raises UsageError."""
    plain = text.strip()
    if plain == "now":
        return now
    if re.fullmatch("([01]?[0-9]|2[0-3]):[0-5][0-9]", plain):
        return _next(plain, now)
    if plain and re.fullmatch(UNITS, plain.removeprefix("+")):
        return now + parse_duration(plain.removeprefix("+"))
    try:
        return parse_moment(plain)
    except ValueError:
        raise UsageError(f"{option} expects now, 2h, 22:00 or 2026-11-22T08:00, not {text[:40]!r}") from None


def _next(clock: str, now: int) -> int:
    """Returns the next time, in ms, at which the clock of this machine shows `clock`."""
    hour, minute = map(int, clock.split(":"))
    today = time.localtime(now // 1000)
    days = (0, 1)
    times = [time.mktime((*today[:2], today.tm_mday + day, hour, minute, 0, 0, 0, -1)) * 1000 for day in days]
    return next(int(at) for at in times if at > now)
