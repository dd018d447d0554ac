"""Reads and writes the indexes of a job array on one line, as Slurm's `--array` takes them: "0-15%4"."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_ARRAY = 10_000
"""Indexes of one array, repeated ones included."""

_RANGE = r"[0-9]{1,6}(-[0-9]{1,6}(:[1-9][0-9]{0,5})?)?"
ARRAY_PATTERN = rf"^{_RANGE}(,{_RANGE})*(%[1-9][0-9]{{0,5}})?$"
"""Slurm's --array: indexes and ranges, `:step` after a range, `%limit` at the end. Six digits, for valid ids."""


def parse_array(text: str) -> tuple[tuple[int, ...], int]:
    """Indexes and limit of "0-15%4" or "1,3,5-9:2". Raises ValueError."""
    plain = text.strip()
    if not re.fullmatch(ARRAY_PATTERN, plain):
        raise ValueError(f"expects indexes such as 0-15, 0-15%4 (four at a time) or 1,3,5-9:2, not {text[:40]!r}")
    ranges, _, limit = plain.partition("%")
    parts = [_range(part) for part in ranges.split(",")]
    if sum(map(len, parts)) > MAX_ARRAY:
        raise ValueError(f"expects at most {MAX_ARRAY} indexes, not {sum(map(len, parts))}")
    return tuple(sorted({index for part in parts for index in part})), int(limit or 0)


def _range(part: str) -> range:
    bounds, _, step = part.partition(":")
    first, dash, last = bounds.partition("-")
    if dash and int(last) < int(first):
        raise ValueError(f"expects ranges that go up, not {bounds}")
    return range(int(first), int(last if dash else first) + 1, int(step or 1))


def format_array(indexes: Iterable[int], limit: int) -> str:
    """Text that `parse_array` reads as these indexes; consecutive ones become ranges."""
    runs: list[list[int]] = []
    for index in indexes:
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    written = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
    return f"{written}%{limit}" if limit else written
