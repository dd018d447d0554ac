"""Standard output and error of every verb: whatever a verb prints is data, and cannot control the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from windlass.wire import escape_controls


class EscapedStream:
    """A text stream that escapes control characters but colours. Its other attributes are those of the stream."""

    def __init__(self, stream: TextIO) -> None:
        self.unescaped = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unescaped, name)

    def write(self, text: str) -> int:
        """Writes the escaped text; returns the number of characters given."""
        self.unescaped.write(escape_controls(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes each line."""
        for line in lines:
            self.write(line)


def unescaped(stream: TextIO) -> TextIO:
    """Returns the stream for the verb's own cursor movements, and for raw output that the user requested."""
    return stream.unescaped if isinstance(stream, EscapedStream) else stream


@contextmanager
def escaped_output() -> Iterator[None]:
    """Escapes what is printed in its context."""
    before = sys.stdout, sys.stderr
    for stream in before:
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # names may hold any bytes
    sys.stdout, sys.stderr = (cast(TextIO, EscapedStream(unescaped(stream))) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
