"""Output of a job's ranks in pieces: the end of each stream first, then what was added since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windlass.backends.local.logs import LogCursor, LogFile, LogLine, generations, log_files
from windlass.backends.local.paths import StatePaths

Json = dict[str, Any]
_FIRST_BYTES = 256 << 10
"""Bytes at the end of all streams together that the first piece has."""
_MAX_LINES = 5_000
_MAX_TEXT = 4_000
"""Characters of a line that are sent."""


def read_log(
    paths: StatePaths, job_id: str, attempt: int | None, ranks: Sequence[int] | None, after: Mapping[str, int]
) -> Json:
    """Lines of one attempt (None: the latest), by time, with the offsets to pass as `after` for what follows.

    A line is [time in ms, rank, stream, text]; agents have negative ranks.
    """
    attempts = generations(paths, job_id)
    chosen = attempt if attempt is not None else (attempts[-1] if attempts else 0)
    files = log_files(paths, job_id, chosen, ranks=ranks)
    known = log_files(paths, job_id, chosen)
    lines: list[LogLine] = []
    offsets: dict[str, int] = {}
    budget = _FIRST_BYTES // max(1, len(files))
    for file in files:
        key = f"{file.rank}.{file.stream}"
        new, offsets[key] = _read_stream(file, after.get(key), budget, _MAX_LINES // max(1, len(files)))
        lines += new
    lines.sort(key=lambda line: line.at)
    return {
        "attempts": attempts,
        "attempt": chosen,
        "ranks": sorted({file.rank for file in known}),
        "offsets": offsets,
        "lines": [[line.at, line.file.rank, line.file.stream, line.text[:_MAX_TEXT]] for line in lines],
    }


def _read_stream(file: LogFile, after: int | None, budget: int, most: int) -> tuple[list[LogLine], int]:
    """Whole lines after an offset, or within the last `budget` bytes; and the offset of the first byte not returned."""
    cursor = LogCursor(file)
    try:
        start = max(0, cursor.end() - budget) if after is None else after
        cursor.offset = start
        lines: list[LogLine] = []
        while len(lines) < most and (new := cursor.poll()):
            lines += new
        is_cut = after is None and start > 0
        return lines[1:] if is_cut else lines, cursor.line_offset()
    finally:
        cursor.close()
