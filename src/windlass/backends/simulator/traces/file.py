"""Reads a text file, compressed with gzip or not, line by line."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from windlass.backends.simulator.errors import TraceError

_GZIP = b"\x1f\x8b"


class Lines:
    """The lines of a file; `number` is that of the last line returned.

    Raises TraceError if the file cannot be opened; EOFError or zlib.error where a gzip is cut off or damaged.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        try:
            with _opened(self.path) as text:
                for self.number, line in enumerate(text, start=1):
                    yield line
        except gzip.BadGzipFile as error:
            raise TraceError(self.path, self.number, f"damaged gzip ({error}); fetch the file again") from None
        except OSError as error:
            raise TraceError(self.path, 0, f"cannot be read: {error.strerror}") from None


def _opened(path: str) -> TextIO:
    with Path(path).open("rb") as raw:
        packed = raw.read(2) == _GZIP
    opened = gzip.open if packed else open
    text: TextIO = opened(path, "rt", encoding="utf-8-sig", errors="replace", newline="")
    return text
