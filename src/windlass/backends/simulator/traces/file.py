"""Reads a text file of a bounded size, compressed with gzip or not, line by line."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from windlass.backends.simulator.errors import TraceError

MAX_LINE = 1 << 20
"""Maximum number of characters of a line, and of a row of several lines."""
MAX_RATIO = 100
"""Maximum ratio of a gzip: traces reach about 30, and a file made to fill the memory 1,000."""
UNPACKED_FREE_BYTES = 16 << 20
"""Unpacked size up to which a gzip may have any ratio."""
_GZIP = b"\x1f\x8b"


class Lines:
    """The lines of a file; `number` is that of the last line returned.

    Raises TraceError if the file cannot be opened, has a line longer than MAX_LINE, or unpacks to too much; EOFError
    or zlib.error where a gzip is cut off or damaged.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        try:
            with Path(self.path).open("rb") as raw:
                packed = raw.read(2) == _GZIP
                size = os.fstat(raw.fileno()).st_size
            opened = gzip.open if packed else open
            with opened(self.path, "rt", encoding="utf-8-sig", errors="replace", newline="") as text:
                yield from self._bounded(text, max(UNPACKED_FREE_BYTES, MAX_RATIO * size) if packed else None)
        except gzip.BadGzipFile as error:
            raise TraceError(self.path, self.number, f"damaged gzip ({error}); fetch the file again") from None
        except OSError as error:
            raise TraceError(self.path, 0, f"cannot be read: {error.strerror}") from None

    def _bounded(self, text: TextIO, most: int | None) -> Iterator[str]:
        """Yields the lines of at most MAX_LINE characters, `most` in all."""
        total = 0
        for self.number, line in enumerate(iter(partial(text.readline, MAX_LINE + 1), ""), start=1):
            if len(line) > MAX_LINE:
                raise TraceError(self.path, self.number, f"the line is longer than {MAX_LINE:,} characters; correct it")
            total += len(line)
            if most is not None and total > most:
                problem = f"the gzip unpacks to more than {MAX_RATIO} times its size; unpack it if it is to be trusted"
                raise TraceError(self.path, self.number, problem)
            yield line


def csv_rows(lines: Iterable[str], path: str, **dialect: Any) -> Iterator[tuple[int, list[str]]]:
    """Yields (number of its last line, cells) of each row of at most MAX_LINE characters that is not empty."""
    size = number = 0

    def counted() -> Iterator[str]:
        nonlocal size, number
        for number, line in enumerate(lines, start=1):
            size += len(line)
            if size > MAX_LINE:
                problem = f"the row is longer than {MAX_LINE:,} characters; close its quote"
                raise TraceError(path, number, problem)
            yield line

    try:
        for row in csv.reader(counted(), **dialect):
            size = 0
            if row:
                yield number, row
    except csv.Error as error:
        raise TraceError(path, number, f"{error}; correct the row") from None
