# ruff: noqa: TRY004 - a value of a file is wrong; TypeError is for programmers
"""The earliest start of a job: a time, or a word of Slurm that is read when the job is submitted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from windlass.jobs.errors import FieldPath
from windlass.jobs.syntax.field import Field
from windlass.jobs.syntax.timestamps import PATTERN, format_moment, parse_moment
from windlass.jobs.syntax.value_types import Plain, ValueType, show


def read_begin(value: Plain) -> int:
    """A begin time in ms since the epoch. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f'expects a time such as "2026-11-28T08:00" or now+2hours, not {show(value)}')
    if is_absolute(value):
        return parse_moment(value)
    from datetime import datetime  # noqa: PLC0415 - few jobs have a begin time

    from windlass.jobs.syntax.time_words import parse_time  # noqa: PLC0415 - as above

    return parse_time(value, datetime.now(), upcoming=True)  # noqa: DTZ005 - local time, as Slurm reads it


def is_absolute(text: str) -> bool:
    """Whether a time means the same whenever it is read."""
    return re.fullmatch(PATTERN[1:-1], text.strip()) is not None


_BEGIN = ValueType("time", {"type": "string", "minLength": 1, "maxLength": 40}, read_begin, format_moment)

BEGIN = Field(
    "begin",
    "Earliest start: 2026-11-28T08:00 by this machine's clock, 2026-11-28T08:00Z, the next 08:00 or midnight, noon, "
    "teatime, tomorrow, now+2hours. Words count from the submission. A time that has passed means at once.",
    _BEGIN,
    default="null (at once)",
    example='"2026-11-28T08:00Z"',
    flags=("--begin",),
    nullable=True,
    foreign_names=("start_time", "startTime", "earliest_start", "not_before", "start_at"),
)


def check_begin(values: Mapping[str, Any]) -> Iterator[tuple[FieldPath, str]]:
    """Faults between the begin time and other fields: (field, message)."""
    if values.get("begin") is not None and values.get("cron"):
        yield ("begin",), "begin is one time, and cron repeats this job; keep one of them"
