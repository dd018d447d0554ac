"""Where a verb that follows something writes: ranks' lines, Windlass's own, and one line that is updated in place."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import TextIO

from windlass.backends.local.logs import Line

_COLOURS = (36, 33, 35, 32, 34, 31, 96, 93, 95, 92, 94, 91)
"""Of ranks, in turn: SGR foreground codes."""
_CLEAR_LINE = "\r\x1b[K"


class Screen:
    """Ranks' stdout goes to stdout, everything else to stderr. A terminal that has gone away is no error.

    `reader_left` turns true when a pipe has no reader any more; what would go there is dropped from then on.
    """

    def __init__(self, *, no_color: bool) -> None:
        minds = no_color or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        self._paints = {stream: stream.isatty() and not minds for stream in (sys.stdout, sys.stderr)}
        self._in_place = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._standing = ""
        self._last = ""
        self._unread: set[TextIO] = set()

    @property
    def reader_left(self) -> bool:
        """Nobody reads what ranks print, or what is said of them."""
        return bool(self._unread)

    def say(self, text: str) -> None:
        """A line of Windlass's own."""
        self._clear()
        self._write(sys.stderr, f"{text}\n")

    def state(self, text: str) -> None:
        """How things stand: replaces the last such line on a terminal, a line for each change elsewhere."""
        if text == self._last:
            return
        self._last = text
        if not self._in_place:
            self._write(sys.stderr, f"{text}\n")
            return
        self._standing = text
        width = _columns()
        self._write(sys.stderr, _CLEAR_LINE + (text if len(text) < width else text[: width - 2] + "…"))

    def rank(self, line: Line, nodes: Mapping[tuple[int, int], str], job: str = "") -> None:
        """A line of a rank, with who printed it: "[r0 n1] …". `nodes`: by (generation, rank)."""
        self._clear()
        stream = sys.stdout if line.file.stream == "out" else sys.stderr
        rank = f"r{line.file.rank}" if line.file.rank >= 0 else ""  # an agent's words are its node's
        words = (job, rank, nodes.get((line.file.generation, line.file.rank), ""))
        who = f"[{' '.join(word for word in words if word)}]"
        if self._paints[stream]:
            who = f"\x1b[{_COLOURS[line.file.rank % len(_COLOURS)]}m{who}\x1b[0m"
        self._write(stream, f"{who} {line.text}\n")

    def bare(self, line: Line) -> None:
        """A line of a rank as it was printed."""
        self._clear()
        self._write(sys.stdout if line.file.stream == "out" else sys.stderr, f"{line.text}\n")

    def close(self) -> None:
        """Leave nothing half written."""
        self._clear()
        for stream in (sys.stdout, sys.stderr):
            self._flush(stream)

    def flush(self) -> None:
        """Let stdout be seen now."""
        self._flush(sys.stdout)

    def _clear(self) -> None:
        if self._standing:
            self._write(sys.stderr, _CLEAR_LINE)
            self._standing = ""

    def _write(self, stream: TextIO, text: str) -> None:
        if stream in self._unread:
            return
        with self._unless_gone(stream):
            stream.write(text)
            if stream is sys.stderr:
                stream.flush()

    def _flush(self, stream: TextIO) -> None:
        if stream not in self._unread:
            with self._unless_gone(stream):
                stream.flush()

    @contextlib.contextmanager
    def _unless_gone(self, stream: TextIO) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self._unread.add(stream)
        except OSError:  # EIO: the terminal has gone
            return


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except OSError:
        return 80
