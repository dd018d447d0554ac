"""Compares the failed starts of a job: whether the same rank ended in the same way after the same step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

from windlass.diagnose.failures.line_prefix import read_prefixes
from windlass.diagnose.failures.progress_lines import step_of
from windlass.server.diagnosis.failed_starts import FailedStart
from windlass.server.diagnosis.log_excerpts import open_stream

_MIN_STARTS = 2
_STREAM_BYTES = 1 << 20
"""Bytes that are read of one stream: a quarter from its start, the rest from its end."""


@dataclass(frozen=True, slots=True)
class RepeatedFailure:
    """Newest starts that failed alike."""

    rank: int
    end: str
    starts: int
    """Number of these starts in a row."""
    step: int | None
    """Last step that the rank printed in each of them; None: its own output names no step."""

    @property
    def line(self) -> str:
        """The line of evidence, which rules recognise."""
        where = "its own output names no step" if self.step is None else f"each after step {self.step}"
        return f"rank {self.rank} {self.end} in {self.starts} starts in a row, {where}"


def find_repeated_failure(starts: Sequence[FailedStart]) -> RepeatedFailure | None:
    """Returns the failure that the newest start shares with the starts before it. `starts`: from the oldest."""
    if len(starts) < _MIN_STARTS:
        return None
    read = cache(_steps_of)
    found = [(start, _last_step(read(tuple(start.streams), start.text, start.rank), start)) for start in starts]
    newest, step = found[-1]
    alike = [*takewhile(lambda each: _is_alike(each[0], newest) and each[1] == step, reversed(found))]
    return RepeatedFailure(newest.rank, newest.end, len(alike), step) if len(alike) >= _MIN_STARTS else None


def _is_alike(one: FailedStart, other: FailedStart) -> bool:
    return (one.rank, one.end) == (other.rank, other.end)


def _last_step(steps: Sequence[tuple[int | None, int]], start: FailedStart) -> int | None:
    """Returns the last step before the end of the start."""
    until = start.until
    return next((step for at, step in reversed(steps) if until is None or (at is not None and at <= until)), None)


def _steps_of(streams: Sequence[str], text: str, rank: int) -> list[tuple[int | None, int]]:
    """Returns time and step of each line about progress, in the order of the lines."""
    lines = [line for path in streams for line in _stream_lines(Path(path))] + text.splitlines()
    found = []
    for line in lines:
        step = step_of(line)
        if step is not None and (origin := read_prefixes(line)).rank in (None, rank):
            found.append((origin.time, step))
    return sorted(found, key=lambda each: each[0] or 0)


def _stream_lines(path: Path) -> Iterator[str]:
    try:
        with open_stream(path, _STREAM_BYTES).open() as stream:
            yield from stream.read().decode(errors="replace").splitlines()
    except OSError:  # the reader of logs reports streams that cannot be read
        return
