"""Output of commands that follow jobs: output of ranks, messages of Windlass, and one status line, updated in place."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Iterator, Mapping
from typing import TextIO

from windlass.backends.local.logs import LogFile, LogLine
from windlass.cli.terminal.escaped_stream import unescaped
from windlass.wire import escape_controls, escape_line

_COLOURS = (36, 33, 35, 32, 34, 31, 96, 93, 95, 92, 94, 91)
"""SGR foreground codes; rank r has the code at index r modulo their number."""
_ESCAPE, _RESET = "\x1b", "\x1b[0m"
_CLEAR_LINE = "\r\x1b[K"


class Screen:
    """The terminal of a command: stdout of ranks goes to stdout, everything else to stderr. A closed one is no error.

    `reader_left` becomes true when the reader of a pipe has closed it; further output to the pipe is dropped.
    """

    def __init__(self, *, no_color: bool) -> None:
        plain = no_color or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        self._is_colored = {stream: stream.isatty() and not plain for stream in (sys.stdout, sys.stderr)}
        self._in_place = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._status_line = ""
        self._last = ""
        self._unread: set[TextIO] = set()

    @property
    def reader_left(self) -> bool:
        """Whether the reader of stdout or stderr has closed its pipe."""
        return bool(self._unread)

    def check_reader(self) -> None:
        """Raises BrokenPipeError if the reader of a pipe has closed it, also if nothing was written since."""
        if self.reader_left or _is_broken_pipe(sys.stdout):
            raise BrokenPipeError

    def say(self, text: str) -> None:
        """Writes a message of Windlass as a line."""
        self._clear()
        self._write(sys.stderr, f"{text}\n")

    def state(self, text: str) -> None:
        """Writes the status line: replaces the previous one on a terminal, otherwise prints a line for each change."""
        if text == self._last:
            return
        self._last = text
        if not self._in_place:
            self._write(sys.stderr, f"{text}\n")
            return
        self._status_line = text
        width = _columns()
        text = escape_controls(" ".join(text.split()))
        shown = text if len(text) < width else text[: width - 2] + "…"
        self._write(unescaped(sys.stderr), f"{_CLEAR_LINE}{shown}")

    def rank(self, line: LogLine, nodes: Mapping[tuple[int, int], str], job: str = "") -> None:
        """Writes a line that a rank printed, after its rank and node: "[r0 n1] …". `nodes`: by (generation, rank).

        A line of an agent itself follows its node, and its number where the node has several agents: "[agent 1 n1] …".
        """
        self._clear()
        stream = sys.stdout if line.file.stream == "out" else sys.stderr
        words = (job, _speaker(line.file, nodes), nodes.get((line.file.generation, line.file.rank), ""))
        prefix = f"[{' '.join(word for word in words if word)}]"
        if self._is_colored[stream]:
            prefix = f"{_ESCAPE}[{_COLOURS[line.file.rank % len(_COLOURS)]}m{prefix}{_RESET}"
        text = escape_line(line.text)
        if _ESCAPE in text:
            text += _RESET if self._is_colored[stream] else ""
        self._write(stream, f"{prefix} {text}\n")

    def bare(self, line: LogLine) -> None:
        """Writes a line that a rank printed, without a prefix and with all of its controls."""
        self._clear()
        self._write(unescaped(sys.stdout if line.file.stream == "out" else sys.stderr), f"{line.text}\n")

    def close(self) -> None:
        """Clears the status line and flushes both streams."""
        self._clear()
        for stream in (sys.stdout, sys.stderr):
            self._flush(stream)

    def flush(self) -> None:
        """Flushes stdout."""
        self._flush(sys.stdout)

    def _clear(self) -> None:
        if self._status_line:
            self._write(unescaped(sys.stderr), _CLEAR_LINE)
            self._status_line = ""

    def _write(self, stream: TextIO, text: str) -> None:
        if stream in self._unread:
            return
        with self._ignoring_closed(stream):
            stream.write(text)
            if stream in (sys.stderr, unescaped(sys.stderr)):
                stream.flush()

    def _flush(self, stream: TextIO) -> None:
        if stream not in self._unread:
            with self._ignoring_closed(stream):
                stream.flush()

    @contextlib.contextmanager
    def _ignoring_closed(self, stream: TextIO) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self._unread.add(stream)
        except OSError:  # EIO: the terminal was closed
            return


def _speaker(file: LogFile, nodes: Mapping[tuple[int, int], str]) -> str:
    """The rank of a line; for an agent its number where its node has several agents, else nothing."""
    if file.rank >= 0:
        return f"r{file.rank}"
    own = nodes.get((file.generation, file.rank))
    agents = [key for key, node in nodes.items() if key[0] == file.generation and key[1] < 0 and node == own]
    return f"agent {-1 - file.rank}" if len(agents) > 1 else ""


def _is_broken_pipe(stream: TextIO) -> bool:
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
        return any(events & select.POLLERR for _, events in poll.poll(0))
    except (OSError, ValueError):  # closed, or without a descriptor
        return False


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except OSError:
        return 80
