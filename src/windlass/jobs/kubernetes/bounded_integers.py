"""Parses integers that come from objects of the Kubernetes API, within stated bounds.

Everyone who may write an object may write any number into its texts, also one that `int` refuses to read (4,300 digits,
`sys.set_int_max_str_digits`) and one that a time, an array or another object cannot hold. So every number of an object
is read here, or by `ManifestField.integer`, which uses this module.
"""

from __future__ import annotations

import re
from typing import Any

MAX_INT32 = 2**31 - 1
"""Maximum of the API's 32-bit fields: priorities, limits of restarts, durations in seconds (68 years)."""
MAX_INT64 = 2**63 - 1
"""Maximum of the API's 64-bit fields: resource versions, generations of objects."""
MAX_GANG_SIZE = 1_000_000
"""Maximum number of pods that start together, of any dialect."""
MAX_COUNT = 10**9
"""Maximum of a counter that Windlass keeps: generations, restarts, failures, revisions of a state."""
MAX_JOB_NUMBER = 10**15
"""Maximum number of a job in the order of submission."""
MAX_TIME_MS = 253_402_300_799_000
"""Last time that RFC 3339 can represent, 9999-12-31T23:59:59Z, in ms since the epoch."""
MAX_AMOUNT_MS = 2**62
"""Maximum of a product of devices and ms."""
_DIGITS = re.compile(r"-?[0-9]{1,19}", re.ASCII)


def parse_integer(written: Any, least: int = 0, most: int = MAX_INT32) -> int | None:
    """Returns a whole number between two, both included; None for anything else.

    `written`: a number, or a text of ASCII digits (at most 19, with a sign if negative). A float without a fraction
    counts: YAML and JSON write large numbers that way.
    """
    value = written
    if isinstance(value, str):
        value = int(value) if _DIGITS.fullmatch(value) else None
    elif isinstance(value, float):
        value = int(value) if value.is_integer() else None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        return None
    return value


def require_integer(written: Any, least: int = 0, most: int = MAX_INT64) -> int:
    """Does the same, and raises ValueError for anything else: for numbers without which an object means nothing."""
    value = parse_integer(written, least, most)
    if value is None:
        raise ValueError(f"expects a whole number from {least} to {most}, not {str(written)[:40]!r}")
    return value


def natural_key(text: str) -> list[tuple[int, str]]:
    """Returns the key that sorts texts by the numbers in them: "w2" before "w10"."""
    return [_part_key(part) for part in re.findall(r"[0-9]+|[^0-9]+", text)]


def _part_key(part: str) -> tuple[int, str]:
    """Returns the key of a number, or of a text between numbers; a number beyond the bound comes last."""
    if not (part.isascii() and part.isdigit()):
        return -1, part
    number = parse_integer(part, 0, MAX_INT64)
    return (MAX_INT64, part) if number is None else (number, "")
