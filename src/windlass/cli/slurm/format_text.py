"""Formats of squeue and sinfo: text with fields such as "%.18i", and lists of names such as "jobid:.18,name"."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from windlass.cli.errors import UsageError

Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SlurmField:
    """A field of a format: its title, its value of a row, and the fields of the row that the value is made of."""

    title: str
    value: Callable[[Row], str]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FormatPart:
    """A field of a format with its width and side, after some text. `field`: None at the end of the format."""

    before: str
    field: SlurmField | None = None
    is_right: bool = False
    width: int = 0
    """0: as long as the value."""


_FIELD = re.compile(r"%(\.?)([0-9]{0,4})([A-Za-z])")
_NAMED = re.compile(r"([A-Za-z_-]+)(?::(\.?)([0-9]{0,4}))?")
_NAMED_WIDTH = 20


def parse_format(text: str, fields: Mapping[str, SlurmField]) -> list[FormatPart]:
    """The parts of a text with % fields. Raises UsageError for an unknown field."""
    parts: list[FormatPart] = []
    end = 0
    for found in _FIELD.finditer(text):
        if found[3] not in fields:
            known = " ".join(f"%{letter}" for letter in sorted(fields, key=str.lower))
            raise UsageError(f"--format: there is no field %{found[3]}\nfields are {known}")
        before = text[end : found.start()]
        parts.append(FormatPart(before, fields[found[3]], bool(found[1]), int(found[2] or 0)))
        end = found.end()
    return [*parts, FormatPart(text[end:])]


def parse_names(text: str, fields: Mapping[str, SlurmField]) -> list[FormatPart]:
    """The parts of a list of names, each with a width of its own. Raises UsageError for an unknown name."""
    parts = []
    for word in text.split(","):
        found = _NAMED.fullmatch(word.strip())
        if found is None or found[1].lower() not in fields:
            raise UsageError(f"--Format: there is no field {word.strip()[:40]!r}\nfields are {', '.join(fields)}")
        width = int(found[3]) if found[3] else _NAMED_WIDTH
        parts.append(FormatPart("", fields[found[1].lower()], bool(found[2]), width))
    return parts


def format_rows(parts: Sequence[FormatPart], rows: Iterable[Row], *, header: bool) -> Iterator[str]:
    """Lines of a format: the header and a line for each row."""
    template = "".join(part.before.replace("%", "%%") + _conversion(part) for part in parts)
    fields = [part.field for part in parts if part.field]
    values = [field.value for field in fields]
    if header:
        yield template % tuple(field.title for field in fields)
    for row in rows:
        yield template % tuple([value(row) for value in values])


def _conversion(part: FormatPart) -> str:
    """The conversion of `%` that cuts a text at the width and aligns it; with any length if there is no width."""
    if part.field is None:
        return ""
    side = "" if part.is_right else "-"
    return f"%{side}{part.width}.{part.width}s" if part.width else "%s"
