"""Excerpts of logs: the start and the end of each, so that a diagnosis is quick whatever their size."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO

from windlass.backends.local.logs import LogCursor, LogFile, stream_bounds
from windlass.backends.local.regular_files import open_regular

_MIN_CHUNK, _MAX_CHUNK = 4 << 10, 256 << 10
_MAX_LINE = 16 << 10
"""Characters of a line that are kept."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Readable part of a log. `is_whole`: nothing is left out."""

    open: Callable[[], BinaryIO]
    is_whole: bool


def open_file(path: Path, size: int) -> Excerpt:
    """Returns at most `size` bytes of a file: a quarter from its start, the rest from its end."""
    try:
        length = path.lstat().st_size
    except OSError:
        length = 0
    if length <= size:
        return Excerpt(partial(_read_whole, path, size), is_whole=True)
    return Excerpt(partial(_read_ends, path, size, length), is_whole=False)


def _read_whole(path: Path, size: int) -> BinaryIO:
    with _open(path) as file:
        return io.BytesIO(file.read(size))


def _read_ends(path: Path, size: int, length: int) -> BinaryIO:
    with _open(path) as file:
        head = file.read(size // 4)
        file.seek(length - (size - size // 4))
        tail = file.read(size - size // 4)
    return io.BytesIO(_whole_lines(head) + tail.partition(b"\n")[2])


def _open(path: Path) -> BinaryIO:
    return os.fdopen(open_regular(path), "rb")


def _whole_lines(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1]


def open_stream(path: Path, size: int) -> Excerpt:
    """Returns at most `size` bytes of a rank's stream, each line with its time in front."""
    start, end = stream_bounds(path)
    is_short = end - start <= size
    parts = [(start, end)] if is_short else [(start, start + size // 4), (end - (size - size // 4), end)]
    return Excerpt(partial(_read_stream, path, parts), is_whole=is_short and start == 0)


def _read_stream(path: Path, parts: list[tuple[int, int]]) -> BinaryIO:
    text = io.BytesIO()
    for number, (start, end) in enumerate(parts):
        for line in _lines_between(path, start, end, skips_first=number > 0):
            text.write(line)
    text.seek(0)
    return text


def _lines_between(path: Path, start: int, end: int, *, skips_first: bool) -> Iterator[bytes]:
    """Yields the lines of a stream between two offsets; `skips_first`: the first one may have begun before."""
    cursor = LogCursor(LogFile("", 0, 0, "", path), chunk=max(_MIN_CHUNK, min(end - start, _MAX_CHUNK)))
    cursor.offset = start
    left = end - start
    try:
        while left > 0 and (lines := cursor.poll() or cursor.rest()):
            for line in lines[int(skips_first) :]:
                yield _timed(line.at, line.text)
                left -= len(line.text) + 1
                if left <= 0:
                    break
            skips_first = False
    finally:
        cursor.close()


def _timed(at: int, text: str) -> bytes:
    moment = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return f"{moment} {text[:_MAX_LINE]}\n".encode(errors="replace")
