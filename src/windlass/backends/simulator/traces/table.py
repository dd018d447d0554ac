"""What a format is, to the reader of files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from windlass.backends.simulator.errors import Flaw
from windlass.backends.simulator.traces.job import TraceJob

Parser: TypeAlias = Callable[[Sequence[str], int], TraceJob]
"""The cells of a row and its number in the file → the job. Raises Flaw."""


@dataclass(frozen=True, slots=True)
class Columns:
    """A file whose first row names its columns."""

    name: str
    words: str
    """What the format is, for people."""
    required: tuple[str, ...]
    parser: Callable[[Mapping[str, int]], Parser]
    """Made once a file, from where each column is."""
    delimiter: str = ","


def cell(cells: Sequence[str], column: int | None) -> str:
    """A value that may be absent, column and all."""
    return cells[column].strip() if column is not None and column < len(cells) else ""


def needs(cells: Sequence[str], columns: int) -> None:
    """Refuse a row that has fewer cells than the header."""
    if len(cells) < columns:
        raise Flaw("short row", f"the row has {len(cells)} of {columns} columns")
