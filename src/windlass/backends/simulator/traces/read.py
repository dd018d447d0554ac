"""Reads a file as a Trace: decompresses it, recognises the format, parses the rows, sorts by submission time."""

from __future__ import annotations

import csv
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from windlass.backends.simulator.errors import RowError, TraceError
from windlass.backends.simulator.traces import cells, jsonl, swf
from windlass.backends.simulator.traces.file import Lines, csv_rows
from windlass.backends.simulator.traces.helios import HELIOS
from windlass.backends.simulator.traces.job import Trace, TraceJob
from windlass.backends.simulator.traces.muri import MURI
from windlass.backends.simulator.traces.openb import OPENB
from windlass.backends.simulator.traces.philly import PHILLY
from windlass.backends.simulator.traces.sacct import NEVER_STARTED, NOT_ENDED, SACCT, STEP
from windlass.backends.simulator.traces.table import Columns

COLUMNS = (PHILLY, HELIOS, MURI, OPENB, SACCT)
FORMATS = {**{table.name: table.title for table in COLUMNS}, swf.NAME: swf.TITLE, jsonl.NAME: jsonl.TITLE}
"""Formats by the name under which a user selects them."""

_NOT_BAD = frozenset({STEP, NEVER_STARTED, NOT_ENDED})
"""Causes of valid rows that describe no run: left out and counted, never an error."""
_TRUNCATED = "file cut off"
_BY_SKIPPING = "or leave bad rows out with --skip-bad"

Row: TypeAlias = tuple[int, TraceJob | RowError]


def read_trace(path: str | Path, format: str | None = None, *, skip_bad: bool = False) -> Trace:
    """Reads a trace. Recognises gzip by its first bytes, and the format by the first line unless `format` is given.

    A bad row raises TraceError with its line number. With `skip_bad` it is left out and counted by cause. Returns jobs
    sorted by submission time; the Standard Workload Format prescribes sorted input, so it is not sorted again.
    """
    name = str(path)
    if format is not None and format not in FORMATS:
        raise TraceError(name, 0, f"there is no format {format}; there are {', '.join(FORMATS)}")
    lines = Lines(name)
    found, rows = _rows(lines, format)
    jobs: list[TraceJob] = []
    left_out: Counter[str] = Counter()
    for row, answer in _until_cut(rows, lines):
        if isinstance(answer, TraceJob):
            jobs.append(answer)
        elif skip_bad or answer.cause in _NOT_BAD:
            left_out[answer.cause] += 1
        elif answer.cause == _TRUNCATED:
            raise TraceError(name, row, str(answer))
        else:
            raise TraceError(name, row, f"{answer}; correct the row, {_BY_SKIPPING}")
    if not jobs:
        raise TraceError(name, 0, f"no job in it{_counted(left_out)}")
    jobs.sort(key=lambda job: job.submit)
    return Trace(Path(path).name, found, tuple(jobs), dict(left_out), (name,))


def _counted(left_out: Counter[str]) -> str:
    return "; left out: " + ", ".join(f"{n} × {cause}" for cause, n in left_out.items()) if left_out else ""


def _until_cut(rows: Iterator[Row], lines: Lines) -> Iterator[Row]:
    """Yields the rows. A truncated or damaged gzip is a flaw of the row after the last complete one."""
    try:
        yield from rows
    except (EOFError, zlib.error):
        read = f"{lines.number:,} row{'s' * (lines.number != 1)} could be read"
        text = f"the file ends early, its gzip is cut off: {read}; fetch it again, or take those with --skip-bad"
        yield lines.number + 1, RowError(_TRUNCATED, text)


def _rows(lines: Lines, format: str | None) -> tuple[str, Iterator[Row]]:
    numbered = iter(lines)
    head: list[str] = []
    for line in numbered:
        head.append(line)
        if line.strip():
            break
    else:
        raise TraceError(lines.path, 0, "the file is empty")
    first, everything = head[-1].strip(), chain(head, numbered)
    name = format or _recognised(first)
    if name == jsonl.NAME:
        return name, _of_lines(everything)
    if name == swf.NAME:
        return name, _of_swf(everything)
    table = next((table for table in COLUMNS if table.name == name), None) or _nearest(first, lines.path)
    return table.name, _of_table(everything, table, lines.path)


def _recognised(first: str) -> str | None:
    if first.startswith("{"):
        return jsonl.NAME
    if first.startswith(";") or (len(first.split()) == swf.FIELDS and first.split(maxsplit=1)[0].isdecimal()):
        return swf.NAME
    return None


def _nearest(first: str, path: str) -> Columns:
    """Returns the format that shares most columns with the first line."""

    def present(table: Columns) -> float:
        named = _names(first, table)
        return sum(column in named for column in table.required) / len(table.required)

    best = max(COLUMNS, key=present)
    if present(best) <= 0.5:
        known = "; ".join(f"{table.name} ({', '.join(table.required)})" for table in COLUMNS)
        text = f"no format that is known; force one with --format. By their columns: {known}; swf, jsonl"
        raise TraceError(path, 1, text)
    return best


def _names(line: str, table: Columns) -> list[str]:
    return [name.strip() for name in next(csv.reader([line], delimiter=table.delimiter), [])]


def _of_table(lines: Iterable[str], table: Columns, path: str) -> Iterator[Row]:
    quoted = table.delimiter == ","  # sacct quotes nothing
    rows = csv_rows(lines, path, delimiter=table.delimiter, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE)
    number, header = next(rows)
    at = {name.strip(): column for column, name in enumerate(header) if name.strip()}
    if missing := [column for column in table.required if column not in at]:
        text = f"{table.title} needs the columns {', '.join(table.required)}; missing: {', '.join(missing)}"
        raise TraceError(path, number, text)
    parse = table.parser(at)
    for number, row in rows:
        try:
            yield number, parse(row, number)
        except RowError as error:
            yield number, error


def _of_lines(lines: Iterable[str]) -> Iterator[Row]:
    for row, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield row, jsonl.job_of(line, row)
            except RowError as error:
                yield row, error


def _of_swf(lines: Iterable[str]) -> Iterator[Row]:
    latest = 0
    for row, line in enumerate(lines, start=1):
        if line.strip() and not line.lstrip().startswith(";"):
            try:
                job = swf.job_of(line.split(), row)
                since = cells.elapsed(job.submit, latest, "submitted before the row above; sort by the 2nd field:")
                latest += since
                yield row, job
            except RowError as error:
                yield row, error
