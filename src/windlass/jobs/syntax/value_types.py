# ruff: noqa: TRY004 - what a user wrote is a wrong value; TypeError is for programmers
"""Types of single values: reading, writing, JSON Schema and the words of errors.

One type serves files and the command line, so both accept the same values with the same errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from windlass.core.model.job import Condition, Dependency, Match
from windlass.core.model.resources import CPU, MEMORY, QuantityError, format_quantity, parse_quantity
from windlass.jobs.syntax.array_indexes import ARRAY_PATTERN, format_array, parse_array
from windlass.jobs.syntax.durations import PATTERN as DURATION_PATTERN
from windlass.jobs.syntax.durations import format_duration, parse_duration
from windlass.jobs.syntax.label_terms import TERM_PATTERN, format_term, parse_term
from windlass.jobs.syntax.names import JOB_REFERENCE, is_name
from windlass.jobs.syntax.timestamps import PATTERN as MOMENT_PATTERN
from windlass.jobs.syntax.timestamps import format_moment, parse_moment

Plain: TypeAlias = str | int | float | bool | None
"""A scalar of YAML's core schema, or a word of the command line."""


@dataclass(frozen=True, slots=True)
class ValueType:
    """Type of a scalar: how it is read, written and described.

    `read` raises ValueError with a text that follows the field's name: "expects …".
    """

    words: str
    """For users: "duration", "whole number ≥ 1"."""
    json: Mapping[str, Any]
    """The JSON Schema of what `read` takes."""
    read: Callable[[Plain], Any]
    write: Callable[[Any], Plain]
    as_written: bool = False
    """`read` gets the text of numbers and booleans as it stands in the file: `010` stays "010"."""


def show(value: Plain) -> str:
    """A value as a file has it, shortened."""
    text = repr(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 44 else f"{text[:40]}…"


def whole(least: int, most: int) -> ValueType:
    """Integers from `least` to `most`."""

    def read(value: Plain) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"expects a whole number from {least} to {most}, not {show(value)}")
        return value

    schema = {"type": "integer", "minimum": least, "maximum": most}
    return ValueType(f"whole number from {least} to {most}", schema, read, int)


def named(pattern: str, words: str, rule: str) -> ValueType:
    """Names of a pattern; `rule` is the pattern in words."""

    def read(value: Plain) -> str:
        if not isinstance(value, str) or not is_name(pattern, value):
            raise ValueError(f"expects {rule}, not {show(value)}")
        return value

    return ValueType(words, {"type": "string", "pattern": f"^{pattern}$"}, read, str)


def choice(values: Sequence[str]) -> ValueType:
    """One of some words."""

    def read(value: Plain) -> str:
        if not isinstance(value, str) or value not in values:
            raise ValueError(f"expects {' or '.join(map(repr, values))}, not {show(value)}")
        return value

    return ValueType(" or ".join(value or '""' for value in values), {"enum": list(values)}, read, str)


def _read_flag(value: Plain) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expects true or false, not {show(value)}")
    return value


def _read_text(value: Plain) -> str:
    if value is None:
        raise ValueError('expects text; write "" for an empty one')
    if not isinstance(value, str):
        raise ValueError(f"expects text, not {show(value)}")
    if "\0" in value:
        raise ValueError("expects text without NUL characters")
    return value


def _read_path(value: Plain) -> str:
    if not _read_text(value):
        raise ValueError("expects a folder, not an empty text")
    return str(value)


def _read_duration(value: Plain) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"expects a duration such as 90s, 10m or 1h30m, not {show(value)}")
    return parse_duration(str(value))


def _read_positive_duration(value: Plain) -> int:
    duration = _read_duration(value)
    if duration == 0:
        raise ValueError("expects more than no time at all; leave it out (or null) for no limit")
    return duration


_CPUS = r"([0-9]{1,7}(\.[0-9]{1,6})?|[0-9]{1,10}m)"
_MEMORY = r"[0-9]{1,15}(\.[0-9]{1,9})?([kMGTPE]|[KMGTPE]i)"
_LEAST_MEMORY = 2**20


def _read_cpus(value: Plain) -> int:
    if isinstance(value, float) and 0 <= value <= 1e6:
        value = f"{value:.6f}"
    text = str(value)
    if isinstance(value, bool) or not re.fullmatch(_CPUS, text):
        raise ValueError(f"expects a number of cores such as 2, 1.5 or 500m, not {show(value)}")
    return parse_quantity(CPU, text)


def _read_memory(value: Plain) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if value < _LEAST_MEMORY:
            raise ValueError(
                f"expects an amount of memory; {show(value)} would be bytes. Write {show(value)}Gi or {show(value)}Mi"
            )
        return parse_quantity(MEMORY, str(min(value, 2**60)))
    if not isinstance(value, str) or not re.fullmatch(_MEMORY, value):
        raise ValueError(f"expects an amount of memory such as 16Gi or 512Mi, not {show(value)}")
    return _quantity(MEMORY, value)


def _quantity(resource: str, text: str) -> int:
    try:
        return parse_quantity(resource, text)
    except QuantityError as error:
        raise ValueError(str(error)) from None


def _write_memory(amount: int) -> Plain:
    written = format_quantity(MEMORY, amount)
    if not written.isdecimal():
        return written
    return amount if amount >= _LEAST_MEMORY else f"{amount // 1000}.{amount % 1000:03}k"


def _write_cpus(amount: int) -> Plain:
    return amount // 1000 if amount % 1000 == 0 else format_quantity(CPU, amount)


def _read_array(value: Plain) -> tuple[tuple[int, ...], int]:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"expects indexes such as 0-15, 0-15%4 or 1,3,5-9:2, not {show(value)}")
    return parse_array(str(value))


def _write_array(value: tuple[tuple[int, ...], int]) -> Plain:
    return format_array(*value)


_SHARE = r"(?=.*[1-9])(0?\.[0-9]{1,6}|[1-9][0-9]{0,2}m)"


def _read_share(value: Plain) -> int:
    """Thousandths, rounded up."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and 0.001 <= float(value) <= 0.999:  # type: ignore[arg-type]  # it is a number
        value = f"{value:.6f}"
    elif not isinstance(value, str) or not re.fullmatch(_SHARE, value):
        raise ValueError(f"expects a part of one GPU such as 0.5 or 500m, not {show(value)}; whole ones are gpus")
    return min(parse_quantity(CPU, value if value[0] != "." else f"0{value}"), 999)


_GPUS = whole(0, 1024)


def _read_gpus(value: Plain) -> int:
    try:
        return int(_GPUS.read(value))
    except ValueError as error:
        is_part = not isinstance(value, bool) and re.fullmatch(_SHARE, str(value))
        raise ValueError(f"{error}; a part of one GPU is gpu_share (--gpu-share)" if is_part else str(error)) from None


def _write_share(amount: int) -> Plain:
    return amount / 1000


_MIG = r"[1-9]g\.[1-9][0-9]{0,3}gb(\+me)?"


def _read_mig(value: Plain) -> str:
    if not isinstance(value, str) or not is_name(_MIG, value):
        raise ValueError(f"expects a MIG profile such as 1g.10gb or 3g.20gb, not {show(value)}")
    return value


def _read_term(value: Plain) -> tuple[Match, ...]:
    if not isinstance(value, str):
        raise ValueError(f"expects conditions such as 'zone in (a,b), !spot', not {show(value)}")
    return parse_term(value)


def _read_moment(value: Plain) -> int:
    if not isinstance(value, str):
        raise ValueError(f"expects a time such as 2026-11-22T08:00, not {show(value)}")
    return parse_moment(value)


_CONDITIONS = {"any": Condition.FINISHED} | {
    each.value: each for each in (Condition.FAILED, Condition.STARTED, Condition.MATCHING, Condition.EARLIER)
}
"""Word before a job's name → what the job must reach; without a word it must succeed."""
_AFTER = rf"(({'|'.join(_CONDITIONS)}):)?{JOB_REFERENCE}"


def _read_after(value: Plain) -> Dependency:
    if not isinstance(value, str) or not is_name(_AFTER, value):
        raise ValueError(f"expects a job's name or id, or any:NAME if it need not succeed, not {show(value)}")
    condition, _, name = value.rpartition(":")
    return Dependency(name, _CONDITIONS.get(condition, Condition.SUCCEEDED))


def _write_after(value: Dependency) -> Plain:
    word = next((word for word, condition in _CONDITIONS.items() if condition is value.condition), "")
    return f"{word}:{value.job_id}" if word else value.job_id


_ANY_DURATION = {"type": "string", "pattern": DURATION_PATTERN}
_NUMBERISH = ["string", "number", "boolean"]

FLAG = ValueType("true or false", {"type": "boolean"}, _read_flag, bool)
TEXT = ValueType("text", {"type": "string"}, _read_text, str)
WORD = ValueType("text", {"type": _NUMBERISH}, _read_text, str, as_written=True)
"""Text that may be written as a number or boolean: environment values, labels, arguments."""
PATH = ValueType("folder", {"type": "string", "minLength": 1}, _read_path, str)
DURATION = ValueType("duration", _ANY_DURATION, _read_duration, format_duration)
LIMIT = ValueType(
    "duration, more than 0",
    {"type": "string", "pattern": rf"^(?=.*[1-9])({DURATION_PATTERN[1:-1]})$"},
    _read_positive_duration,
    format_duration,
)
CORES = ValueType(
    "cores, such as 2, 1.5 or 500m",
    {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1e6}, {"type": "string", "pattern": f"^{_CPUS}$"}]},
    _read_cpus,
    _write_cpus,
)
BYTES = ValueType(
    "memory, such as 16Gi or 512Mi",
    {"anyOf": [{"type": "integer", "minimum": _LEAST_MEMORY}, {"type": "string", "pattern": f"^{_MEMORY}$"}]},
    _read_memory,
    _write_memory,
)
INDEXES = ValueType(
    "indexes, such as 0-15%4",
    {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 999_999}, {"type": "string", "pattern": ARRAY_PATTERN}]},
    _read_array,
    _write_array,
)
AFTER = ValueType("a job's name or id", {"type": "string", "pattern": f"^{_AFTER}$"}, _read_after, _write_after)
EXIT_CODE = whole(1, 255)
MOMENT = ValueType(
    "time, such as 2026-11-22T08:00", {"type": "string", "pattern": MOMENT_PATTERN}, _read_moment, format_moment
)
GPUS = replace(_GPUS, read=_read_gpus)
SHARE = ValueType(
    "part of a GPU, such as 0.5 or 500m",
    {"anyOf": [{"type": "number", "minimum": 0.001, "maximum": 0.999}, {"type": "string", "pattern": f"^{_SHARE}$"}]},
    _read_share,
    _write_share,
)
MIG = ValueType("MIG profile, such as 3g.20gb", {"type": "string", "pattern": f"^{_MIG}$"}, _read_mig, str)
TERM = ValueType(
    "conditions, such as 'zone=a, !spot'", {"type": "string", "pattern": TERM_PATTERN}, _read_term, format_term
)
