"""Formats of squeue and sinfo: text with fields such as "%.18i", which have a width and a side."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from windlass.cli.errors import UsageError

Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SlurmField:
    """A field of a format: its title, and its value of a row."""

    title: str
    value: Callable[[Row], str]


_FIELD = re.compile(r"%(\.?)([0-9]{0,4})([A-Za-z])")


def format_rows(text: str, fields: Mapping[str, SlurmField], rows: Iterable[Row], *, header: bool) -> Iterator[str]:
    """Lines of a format: the header and a line for each row. Raises UsageError for an unknown field."""
    parts = _parse(text, fields)
    if header:
        yield "".join(part if isinstance(part, str) else _fit(part[0].title, *part[1:]) for part in parts)
    for row in rows:
        yield "".join(part if isinstance(part, str) else _fit(part[0].value(row), *part[1:]) for part in parts)


def _parse(text: str, fields: Mapping[str, SlurmField]) -> list[str | tuple[SlurmField, bool, int]]:
    parts: list[str | tuple[SlurmField, bool, int]] = []
    end = 0
    for found in _FIELD.finditer(text):
        if found[3] not in fields:
            known = " ".join(f"%{letter}" for letter in sorted(fields, key=str.lower))
            raise UsageError(f"--format: there is no field %{found[3]}\nfields are {known}")
        parts += [text[end : found.start()], (fields[found[3]], bool(found[1]), int(found[2] or 0))]
        end = found.end()
    return [*parts, text[end:]]


def _fit(value: str, right: bool, width: int) -> str:
    """A value in its width: cut at it, aligned; of any length without one."""
    if not width:
        return value
    return value[:width].rjust(width) if right else value[:width].ljust(width)
