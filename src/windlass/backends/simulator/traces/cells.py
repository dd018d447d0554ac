"""Parses and checks single values of a row. Every function raises RowError with a text that names the error."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from functools import lru_cache

from windlass.backends.simulator.errors import RowError
from windlass.core.model.gang import MAX_MEMBERS
from windlass.core.model.resources import MAX_AMOUNT

LONGEST_S = 10 * 365 * 86_400
"""Ten years, in seconds: a longer run or walltime is an error of unit."""
LATEST_S = 250 * 365 * 86_400
"""The year 2220, in seconds since 1970."""
MAX_GPUS = MAX_MEMBERS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_IN_UTC = datetime(1970, 1, 1)  # noqa: DTZ001 - for times that do not name their zone
_TRES = re.compile(r"^(\d+(?:\.\d+)?)([KMGTPE]?)$")
_BINARY = {"": 1, **{letter: 1024**power for power, letter in enumerate("KMGTPE", start=1)}}


def parse_number(text: str, name: str, most: float) -> float:
    """Parses a number from 0 to `most`."""
    try:
        value = float(text)
    except ValueError:
        if not text.strip():
            raise RowError("missing value", f"{name} is missing") from None
        raise RowError("not a number", f"{name} is {text[:40]!r}, not a number") from None
    if 0 <= value <= most:
        return value
    if value < 0:
        raise RowError("negative value", f"{name} is {text}, which is negative")
    if math.isnan(value):
        raise RowError("not a number", f"{name} is {text[:40]!r}, not a number")
    raise RowError("value out of range", f"{name} is {text[:40]}, and {most:,.0f} is the maximum")


def parse_integer(text: str, name: str, most: int) -> int:
    """Parses a whole number from 0 to `most`; "4.0" is valid."""
    value = parse_number(text, name, most)
    if value != int(value):
        raise RowError("not a whole number", f"{name} is {text[:40]}, not a whole number")
    return int(value)


def parse_duration(text: str, name: str) -> int:
    """Parses seconds. Returns ms."""
    return round(parse_number(text, name, LONGEST_S) * 1000)


@lru_cache(maxsize=1024)
def parse_gpus(text: str, name: str) -> int:
    """Parses a count of GPUs; cached, because traces have few different counts."""
    return parse_integer(text, name, MAX_GPUS)


def parse_seconds(text: str, name: str) -> int:
    """Parses a time in seconds since any origin. Returns ms."""
    return round(parse_number(text, name, LATEST_S) * 1000)


def parse_moment(text: str, name: str) -> int:
    """Parses a date and time ("2017-10-09 07:01:55"); UTC without a zone. Returns ms since the epoch."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        if not text.strip():
            raise RowError("missing value", f"{name} is missing") from None
        raise RowError("not a time", f"{name} is {text[:40]!r}; write it as 2017-10-09 07:01:55") from None
    since = when - (_EPOCH if when.tzinfo else _EPOCH_IN_UTC)
    ms = since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000
    if 0 <= ms <= LATEST_S * 1000:
        return ms
    raise RowError("value out of range", f"{name} is {text}, which is not between 1970 and 2220")


def parse_amount(text: str, name: str) -> int:
    """Parses a quantity in Slurm's notation: "64G", "1.50T", binary suffixes; plain numbers are unchanged."""
    match = _TRES.match(text.strip().upper().removesuffix("B"))
    if match is None:
        raise RowError("not a number", f"{name} is {text[:40]!r}; expected for example 64G")
    return min(int(float(match[1]) * _BINARY[match[2]]), MAX_AMOUNT)


def elapsed(end: int, begin: int, name: str) -> int:
    """Returns `end - begin`, which must not be negative."""
    if end < begin:
        raise RowError("times out of order", f"{name} by {(begin - end) / 1000:g} s")
    return end - begin
