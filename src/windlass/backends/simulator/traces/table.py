"""The description of a trace format with named columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from windlass.backends.simulator.errors import RowError
from windlass.backends.simulator.traces.job import TraceJob

Parser: TypeAlias = Callable[[Sequence[str], int], TraceJob]
"""Turns the cells of a row and its line number into a job. Raises RowError."""


@dataclass(frozen=True, slots=True)
class Columns:
    """A file whose first row names its columns."""

    name: str
    title: str
    """Description of the format for people."""
    required: tuple[str, ...]
    parser: Callable[[Mapping[str, int]], Parser]
    """Creates the parser of one file from the position of each column."""
    delimiter: str = ","


def cell(cells: Sequence[str], column: int | None) -> str:
    """Returns a cell, or "" where the column or the cell is absent."""
    return cells[column].strip() if column is not None and column < len(cells) else ""


def needs(cells: Sequence[str], columns: int) -> None:
    """Raises RowError for a row with fewer cells than the header."""
    if len(cells) < columns:
        raise RowError("short row", f"the row has {len(cells)} of {columns} columns")
