"""Listings: the same rows as a table, wide, JSON, JSON lines, YAML or bare names; once, or whenever they change."""

from __future__ import annotations

import json
import sys
import time
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias

import typer

Row: TypeAlias = dict[str, Any]
_SECONDS_BETWEEN_LOOKS = 1.0
_HOME_AND_CLEAR = "\x1b[H\x1b[2J"
_GAP = "  "
_LEAST = 20
"""Columns that a terminal too narrow for a table still gets of its last cells."""


class Format(StrEnum):
    """How a listing is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"
    NAME = "name"


FormatOption: TypeAlias = Annotated[Format, typer.Option("-o", "--output", help="How to print it.")]
WatchOption: TypeAlias = Annotated[
    bool, typer.Option("--watch", help="Print it again whenever it changes, until Ctrl-C.")
]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table. `style` is rich's, from the row; `wide` columns are shown by -o wide only."""

    title: str
    cell: Callable[[Row], str]
    wide: bool = False
    right: bool = False
    style: Callable[[Row], str] | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """What is listed: `key` names the field that -o name prints, `empty` what is said when there is nothing."""

    columns: tuple[Column, ...]
    key: str
    empty: str


def show(listing: Listing, rows: Sequence[Row], how: Format, *, paint: bool) -> None:
    """Print rows once."""
    if how is Format.JSON:
        print(as_json(rows))
    elif how is Format.JSONL:
        print("".join(f"{as_line(row)}\n" for row in rows), end="")
    elif how is Format.YAML:
        print(as_yaml(rows), end="")
    elif how is Format.NAME:
        print("".join(f"{row[listing.key]}\n" for row in rows), end="")
    elif not rows:
        print(listing.empty, file=sys.stderr)
    else:
        columns = [column for column in listing.columns if how is Format.WIDE or not column.wide]
        (_painted if paint else _plain)(columns, rows)


def paged(look: Callable[[], Any], tell: Callable[[Any], None], *, again: bool) -> None:
    """Tell what is seen: once, or `again` and again whenever it has changed, on a clean screen if it is one."""
    before: object = None
    while True:
        seen = look()
        if seen != before:
            if again and sys.stdout.isatty():
                print(_HOME_AND_CLEAR, end="")
            tell(seen)
            sys.stdout.flush()
            before = seen
        if not again:
            return
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def listed(
    listing: Listing,
    look: Callable[[], Sequence[Row]],
    how: Format,
    *,
    again: bool,
    paint: bool,
    limit: int = sys.maxsize,
) -> None:
    """What every listing verb does. At `limit` rows it says, on stderr, that there may be more."""

    def tell(rows: Sequence[Row]) -> None:
        show(listing, rows, how, paint=paint)
        if len(rows) >= limit:
            print(f"these are the first {limit}; --limit shows more", file=sys.stderr)

    paged(look, tell, again=again)


def as_json(value: object) -> str:
    """JSON as people and jq read it."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def as_line(value: object) -> str:
    """JSON on one line: a listing so printed is a file of JSON lines."""
    return json.dumps(value, ensure_ascii=False)


def as_yaml(value: object) -> str:
    """The same as YAML."""
    import yaml  # noqa: PLC0415 - only for those who ask

    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))


def structured(value: object, how: Format, name: str) -> bool:
    """Print one thing as JSON, YAML or its name; False if a table is wanted."""
    if how is Format.JSON:
        print(as_json(value))
    elif how is Format.JSONL:
        print(as_line(value))
    elif how is Format.YAML:
        print(as_yaml(value), end="")
    elif how is Format.NAME:
        print(name)
    else:
        return False
    return True


def _plain(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Aligned by spaces, one line a row whatever its width."""
    table = [[column.title for column in columns], *([_line(column.cell(row)) for column in columns] for row in rows)]
    widths = [max(_cells(line[i]) for line in table) for i in range(len(columns))]
    for line in table:
        padded = [_pad(text, width, right=c.right) for text, width, c in zip(line, widths, columns, strict=True)]
        print(_GAP.join(padded).rstrip())


def _pad(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - _cells(text))
    return space + text if right else text + space


def _line(text: str) -> str:
    return " ".join(text.split()) if text else "-"


def _cells(text: str) -> int:
    """Columns of a terminal: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def _painted(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """By rich: the last cell is cut where the terminal ends; nothing is wrapped."""
    from rich.console import Console  # noqa: PLC0415 - costs more than the rest of a verb
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console, table = Console(), Table(box=None, pad_edge=False, header_style="bold")
    texts = [[_line(column.cell(row)) for column in columns] for row in rows]
    titles = [column.title for column in columns]
    widths = [max(map(_cells, cells)) for cells in zip(titles, *texts, strict=True)]
    before = sum(widths[:-1]) + len(_GAP) * (len(columns) - 1)
    console.width = max(console.width, before + min(widths[-1], _LEAST))  # narrower, and rich drops whole columns
    widths[-1] = min(widths[-1], console.width - before)
    for column, width in zip(columns, widths, strict=True):
        side: Literal["left", "right"] = "right" if column.right else "left"
        table.add_column(column.title, justify=side, no_wrap=True, overflow="ellipsis", width=width)
    for row, line in zip(rows, texts, strict=True):
        styles = [column.style(row) if column.style else "" for column in columns]
        table.add_row(*(Text(text, style) for text, style in zip(line, styles, strict=True)))
    console.print(table)
