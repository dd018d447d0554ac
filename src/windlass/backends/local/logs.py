"""Reads the output of ranks: by job, generation, rank and stream, across rotated parts, from a time on, or live.

The files are written by `supervisor.log_files`, whose docstring has the layout. An offset counts the bytes of the
whole stream, including parts that rotation has removed, so it stays valid while the stream grows.
"""

from __future__ import annotations

import heapq
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from windlass.backends.local.paths import StatePaths
from windlass.backends.local.regular_files import open_regular
from windlass.backends.local.supervisor.log_files import INDEX_ENTRY, INDEX_EVERY, highest_part

_CHUNK = 1 << 18
_LONGEST_LINE = 1 << 20
"""Bytes after which a line without an end is returned in pieces."""
STREAMS = ("out", "err")


_AGENT = "node-"


class LogFile(NamedTuple):
    """One stream of one rank. It exists once the rank has printed something."""

    job_id: str
    generation: int
    rank: int
    """Rank number. Negative for agents: -1 for the first member's, -2 for the second's."""
    stream: str
    path: Path


def agent_name(member: int) -> str:
    """Returns the name of the files and the folder of a member's agent, beside those of ranks."""
    return f"{_AGENT}{member}"


class LogLine(NamedTuple):
    """A line of output. `at`: time in ms, to within `INDEX_EVERY`. `text` has no line end."""

    file: LogFile
    at: int
    text: str


def generations(paths: StatePaths, job_id: str) -> list[int]:
    """Returns the generations of a job that have printed something."""
    found = _numbers(paths.job_logs(job_id))
    return [number for number in found if any(paths.generation_logs(job_id, number).iterdir())]


def log_files(
    paths: StatePaths,
    job_id: str,
    generation: int,
    *,
    ranks: Iterable[int] | None = None,
    streams: Sequence[str] = STREAMS,
) -> list[LogFile]:
    """Returns the existing streams of these ranks (None: all), ordered by rank."""
    folder = paths.generation_logs(job_id, generation)
    wanted = None if ranks is None else set(ranks)
    found: list[LogFile] = []
    for path in folder.iterdir() if folder.is_dir() else ():
        name, _, stream = path.name.partition(".")
        rank = _number(name) if stream in streams else None
        if rank is not None and (wanted is None or rank in wanted):
            found.append(LogFile(job_id, generation, rank, stream, path))
    return sorted(found, key=lambda file: (file.rank, STREAMS.index(file.stream)))


def _number(name: str) -> int | None:
    if name.isdecimal():
        return int(name)
    member = name.removeprefix(_AGENT)
    return -1 - int(member) if name != member and member.isdecimal() else None


def read_lines(files: Iterable[LogFile], *, since: int | None = None) -> Iterator[LogLine]:
    """Yields all lines of all files in order of time; lines of one file keep their order. `since` in ms."""
    return heapq.merge(*(_lines(file, since) for file in files), key=lambda line: line.at)


def _lines(file: LogFile, since: int | None) -> Iterator[LogLine]:
    cursor = LogCursor(file, since=since)
    try:
        while lines := cursor.poll():
            yield from lines
        yield from cursor.rest()
    finally:
        cursor.close()


class LogCursor:
    """A position in one stream. `poll` returns the lines since then; without new lines it costs two system calls."""

    def __init__(self, file: LogFile, *, since: int | None = None, chunk: int = _CHUNK) -> None:
        self.file = file
        self._chunk = chunk
        """Bytes that are read at once."""
        self.offset = 0
        """Offset of the next byte to read."""
        self._part: _Part | None = None
        self._unfinished = b""
        """A line whose end was not read yet."""
        self._unfinished_at = 0
        if since is not None:
            self.offset = offset_at(file.path, since)

    def poll(self) -> list[LogLine]:
        """Returns the next lines, bounded in number; empty if none is complete."""
        lines: list[LogLine] = []
        while not lines and (data := self._read()):
            lines = self._split(data)
        return lines

    def rest(self) -> list[LogLine]:
        """Returns the last line if it has no end. For a stream that has ended."""
        unfinished, self._unfinished = self._unfinished, b""
        return [self._line(unfinished)] if unfinished else []

    def end(self) -> int:
        """Returns the offset of the end of the stream as it is now."""
        return _end(self.file.path)

    def line_offset(self) -> int:
        """Returns the offset of the first byte that belongs to no returned line."""
        return self.offset - len(self._unfinished)

    def close(self) -> None:
        """Closes the files."""
        self._leave_part()

    def _split(self, data: bytes) -> list[LogLine]:
        start = self.offset - len(data)
        *whole, tail = data.split(b"\n")
        lines: list[LogLine] = []
        for piece in whole:
            self._continue_line(piece, start)
            start += len(piece) + 1
            lines += self._finish_line()
        self._continue_line(tail, start)
        return lines + (self._finish_line() if len(self._unfinished) > _LONGEST_LINE else [])

    def _continue_line(self, piece: bytes, offset: int) -> None:
        if not self._unfinished:
            assert self._part is not None  # noqa: S101 - something has been read from it
            self._unfinished_at = self._part.times.at(offset - self._part.start)
        self._unfinished += piece

    def _finish_line(self) -> list[LogLine]:
        unfinished, self._unfinished = self._unfinished, b""
        return [self._line(unfinished)]

    def _line(self, raw: bytes) -> LogLine:
        return LogLine(self.file, self._unfinished_at, raw.decode(errors="replace").removesuffix("\r"))

    def _read(self) -> bytes:
        """Returns the next bytes, from this part or the next; empty if there are none yet."""
        while self._part is not None or self._enter_part():
            assert self._part is not None  # noqa: S101 - set by _enter_part
            # before reading: afterwards more may be written and then rotated
            closed = self._part.is_closed(self.file.path)
            if data := os.pread(self._part.descriptor, self._chunk, self.offset - self._part.start):
                self.offset += len(data)
                return data
            if not closed:
                return b""
            self._leave_part()
        return b""

    def _enter_part(self) -> bool:
        """Opens the part that contains the offset, or the oldest remaining part after it."""
        part = _open_part(self.file.path, self.offset)
        if part is None:
            return False
        self._part = part
        self.offset = max(self.offset, part.start)
        return True

    def _leave_part(self) -> None:
        if self._part is not None:
            self._part.close()
        self._part = None


def offset_at(path: Path, since: int) -> int:
    """Returns the offset of the first byte that may have been printed at `since` (ms) or later."""
    for number, start, _ in _parts(path):
        entry = _first_after(_index_path(path, number), since - INDEX_EVERY)
        if entry is not None:
            return start + entry
    return _end(path)


def stream_bounds(path: Path) -> tuple[int, int]:
    """Returns the offsets of the oldest byte that is left of a stream and of its end."""
    parts = _parts(path)
    return (parts[0][1], parts[-1][1] + parts[-1][2]) if parts else (0, 0)


# --- parts ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Part:
    descriptor: int
    start: int
    times: _Times
    inode: int

    def close(self) -> None:
        os.close(self.descriptor)
        self.times.close()

    def is_closed(self, path: Path) -> bool:
        """Tells whether the part was rotated, so that nothing is added to it any more."""
        try:
            return path.stat().st_ino != self.inode
        except FileNotFoundError:
            return True


def _parts(path: Path) -> list[tuple[int, int, int]]:
    """Returns (number, start, size) of every part, oldest first; the part being written has number 0."""
    full = sorted(number for number in _suffixes(path))
    try:
        current = path.stat().st_size
    except FileNotFoundError:
        current = -1
    size = _part_path(path, full[-1]).stat().st_size if full else 0
    parts = [(number, (number - 1) * size, size) for number in full]
    return parts if current < 0 else [*parts, (0, full[-1] * size if full else 0, current)]


def _open_part(path: Path, offset: int) -> _Part | None:
    while True:
        newest = highest_part(str(path)) if path.parent.is_dir() else 0
        parts = _parts(path)
        chosen = next(((number, start) for number, start, size in parts if number == 0 or offset < start + size), None)
        if chosen is None:
            return None
        number, start = chosen
        try:
            descriptor = open_regular(_part_path(path, number))
        except FileNotFoundError:  # removed by rotation in the meantime
            continue
        part = _Part(descriptor, start, _Times(_index_path(path, number)), os.fstat(descriptor).st_ino)
        if highest_part(str(path)) == newest:
            return part
        part.close()  # rotated between listing and opening: list again


def _end(path: Path) -> int:
    return stream_bounds(path)[1]


def _suffixes(path: Path) -> list[int]:
    prefix = path.name + "."
    try:
        entries = os.listdir(path.parent)  # noqa: PTH208 - a folder of 512 ranks is listed for each of them
    except (FileNotFoundError, NotADirectoryError):
        return []
    names = (entry[len(prefix) :] for entry in entries if entry.startswith(prefix))
    return [int(name) for name in names if name.isdecimal()]


def _part_path(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}") if number else path


def _index_path(path: Path, number: int) -> Path:
    part = _part_path(path, number)
    return part.with_name(part.name + ".idx")


def _numbers(folder: Path) -> list[int]:
    names = (entry.name for entry in folder.iterdir()) if folder.is_dir() else ()
    return sorted(int(name) for name in names if name.isdecimal())


# --- times ------------------------------------------------------------------------------------------------


class _Times:
    """Print times of the bytes of one part, queried in ascending order of offset. Follows a growing index."""

    def __init__(self, index: Path) -> None:
        try:
            self._descriptor = open_regular(index)
        except FileNotFoundError:
            self._descriptor = -1
        self._position = 0
        self._ahead: deque[tuple[int, int]] = deque()
        self._now = 0

    def at(self, offset: int) -> int:
        """Returns the time in ms of the byte at `offset` of the part."""
        while (self._ahead or self._load()) and self._ahead[0][1] <= offset:
            self._now = self._ahead.popleft()[0]
        return self._now

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def _load(self) -> bool:
        if self._descriptor < 0:
            return False
        raw = os.pread(self._descriptor, INDEX_ENTRY.size * 1024, self._position)
        raw = raw[: len(raw) // INDEX_ENTRY.size * INDEX_ENTRY.size]
        self._position += len(raw)
        self._ahead.extend(INDEX_ENTRY.iter_unpack(raw))
        return bool(raw)


def _first_after(index: Path, time: int) -> int | None:
    """Returns the offset of the first index entry later than `time`, by bisection; None if there is none."""
    try:
        with os.fdopen(open_regular(index), "rb") as file:
            low, high = 0, os.fstat(file.fileno()).st_size // INDEX_ENTRY.size
            count = high
            while low < high:
                middle = (low + high) // 2
                at, _ = _entry(file.fileno(), middle)
                low, high = (middle + 1, high) if at <= time else (low, middle)
            return _entry(file.fileno(), low)[1] if low < count else None
    except FileNotFoundError:
        return None


def _entry(descriptor: int, number: int) -> tuple[int, int]:
    at, offset = INDEX_ENTRY.unpack(os.pread(descriptor, INDEX_ENTRY.size, number * INDEX_ENTRY.size))
    return at, offset
