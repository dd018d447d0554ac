"""Prints rows as a table, wide table, JSON, JSON lines, YAML or names; once, or again whenever they change."""

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

from windlass.cli.terminal.escaped_stream import unescaped
from windlass.wire import escape_controls

Row: TypeAlias = dict[str, Any]
_WATCH_INTERVAL_S = 1.0
_HOME_AND_CLEAR = "\x1b[H\x1b[2J"
_GAP = "  "
_MIN_LAST_COLUMN = 20
"""Minimum width of the last column on a terminal that is too narrow for the table."""


class Format(StrEnum):
    """Output format of a listing."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"
    NAME = "name"


FormatOption: TypeAlias = Annotated[Format, typer.Option("-o", "--output", help="Output format.")]
WatchOption: TypeAlias = Annotated[bool, typer.Option("--watch", help="Print again on every change, until Ctrl-C.")]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table. `style` returns a rich style for a row; `wide` columns are shown by -o wide only."""

    title: str
    cell: Callable[[Row], str]
    wide: bool = False
    right: bool = False
    style: Callable[[Row], str] | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """A table. `key`: the field that -o name prints; `empty`: the text printed without rows."""

    columns: tuple[Column, ...]
    key: str
    empty: str


def show(listing: Listing, rows: Sequence[Row], how: Format, *, paint: bool) -> None:
    """Prints rows once. `paint`: with colors, cut to the width of the terminal."""
    if how is Format.JSON:
        print(as_json(rows))
    elif how is Format.JSONL:
        print("".join(f"{as_json_line(row)}\n" for row in rows), end="")
    elif how is Format.YAML:
        print(as_yaml(rows), end="")
    elif how is Format.NAME:
        print("".join(f"{row[listing.key]}\n" for row in rows), end="")
    elif not rows:
        print(listing.empty, file=sys.stderr)
    else:
        columns = [column for column in listing.columns if how is Format.WIDE or not column.wide]
        (_print_painted if paint else _print_plain)(columns, rows)


def watch_value(read: Callable[[], Any], display: Callable[[Any], None], *, again: bool) -> None:
    """Displays a value once or, with `again`, on every change, clearing the screen of a terminal."""
    before: object = None
    while True:
        value = read()
        if value != before:
            if again and sys.stdout.isatty():
                print(_HOME_AND_CLEAR, end="", file=unescaped(sys.stdout))
            display(value)
            sys.stdout.flush()
            before = value
        if not again:
            return
        time.sleep(_WATCH_INTERVAL_S)


def watch_rows(
    listing: Listing,
    read: Callable[[], Sequence[Row]],
    how: Format,
    *,
    again: bool,
    paint: bool,
    limit: int = sys.maxsize,
) -> None:
    """Prints rows once or, with `again`, on every change. At `limit` rows, notes on stderr that there may be more."""

    def display(rows: Sequence[Row]) -> None:
        show(listing, rows, how, paint=paint)
        if len(rows) >= limit:
            print(f"only {limit} are shown; --limit shows more", file=sys.stderr)

    watch_value(read, display, again=again)


def as_json(value: object) -> str:
    """Returns indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def as_json_line(value: object) -> str:
    """Returns JSON on one line, for the JSON lines format."""
    return json.dumps(value, ensure_ascii=False)


def as_yaml(value: object) -> str:
    """Returns YAML. If it contained controls that YAML leaves in plain text, all of its text is ASCII."""
    import yaml  # noqa: PLC0415 - only for -o yaml

    text = str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
    return text if escape_controls(text) == text else str(yaml.safe_dump(value, sort_keys=False))


def print_structured(value: object, how: Format, name: str) -> bool:
    """Prints one object as JSON, YAML or its name; returns False, printing nothing, for the table formats."""
    if how is Format.JSON:
        print(as_json(value))
    elif how is Format.JSONL:
        print(as_json_line(value))
    elif how is Format.YAML:
        print(as_yaml(value), end="")
    elif how is Format.NAME:
        print(name)
    else:
        return False
    return True


def _print_plain(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Prints columns aligned by spaces, one line per row, without a limit of width."""
    table = [[column.title for column in columns], *([_line(column.cell(row)) for column in columns] for row in rows)]
    widths = [max(_cells(line[i]) for line in table) for i in range(len(columns))]
    for line in table:
        padded = [_pad(text, width, right=c.right) for text, width, c in zip(line, widths, columns, strict=True)]
        print(_GAP.join(padded).rstrip())


def _pad(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - _cells(text))
    return space + text if right else text + space


def _line(text: str) -> str:
    return escape_controls(" ".join(text.split())) if text else "-"


def _cells(text: str) -> int:
    """Returns the width on a terminal: two cells for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def _print_painted(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Prints a table by rich. The last column is cut at the width of the terminal; nothing is wrapped."""
    from rich.console import Console  # noqa: PLC0415 - its import takes longer than the rest of a verb
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console, table = Console(), Table(box=None, pad_edge=False, header_style="bold")
    texts = [[_line(column.cell(row)) for column in columns] for row in rows]
    titles = [column.title for column in columns]
    widths = [max(map(_cells, cells)) for cells in zip(titles, *texts, strict=True)]
    before = sum(widths[:-1]) + len(_GAP) * (len(columns) - 1)
    console.width = max(console.width, before + min(widths[-1], _MIN_LAST_COLUMN))  # rich would drop whole columns
    widths[-1] = min(widths[-1], console.width - before)
    for column, width in zip(columns, widths, strict=True):
        side: Literal["left", "right"] = "right" if column.right else "left"
        table.add_column(column.title, justify=side, no_wrap=True, overflow="ellipsis", width=width)
    for row, line in zip(rows, texts, strict=True):
        styles = [column.style(row) if column.style else "" for column in columns]
        table.add_row(*(Text(text, style) for text, style in zip(line, styles, strict=True)))
    console.print(table)
