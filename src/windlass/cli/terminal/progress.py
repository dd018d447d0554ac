"""Progress of a long computation: a bar on a terminal, lines elsewhere, nothing if it ends within two seconds."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any, Self

from windlass.cli.terminal.escaped_stream import unescaped
from windlass.wire import escape_controls

_DELAY_S = 2.0
"""Nothing is shown before this time has passed."""


class ProgressBar:
    """A progress display on stderr. It is called with (fraction in [0, 1], finished parts, all parts).

    On a terminal it appears after two seconds, also during a part that takes longer. `terminal_only`: without lines
    elsewhere.
    """

    def __init__(self, what: str, *, no_color: bool, terminal_only: bool = False) -> None:
        self._what = escape_controls(what)
        self._no_color = no_color
        self._in_place = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._prints_lines = not self._in_place and not terminal_only
        self._begin = time.monotonic()
        self._printed = 0
        self._bar: Any = None
        self._task: Any = None
        self._values: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._timer = threading.Timer(_DELAY_S, self._draw)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        if self._in_place:
            self._timer.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._timer.cancel()
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
            self._in_place = False

    def __call__(self, fraction: float, ended: int, parts: int, text: str = "") -> None:
        """Updates the bar, or prints a line when a further part has finished. Cheap enough to be called often.

        `text`: shown in the bar in place of the numbers of parts.
        """
        self._values = {"completed": fraction, "ended": escape_controls(text) or f"{ended} of {parts}"}
        if time.monotonic() - self._begin < _DELAY_S:
            return
        if self._prints_lines:
            self._print_line(ended, parts)
        else:
            self._draw()

    def _draw(self) -> None:
        """Shows the latest values, in the thread of the caller or of the timer."""
        with self._lock:
            if not self._in_place or not self._values:
                return
            if self._bar is None:
                self._create_bar(self._values)
            self._bar.update(self._task, **self._values)

    def _print_line(self, ended: int, parts: int) -> None:
        if ended > self._printed:
            self._printed = ended
            print(f"{self._what}: {ended} of {parts} done", file=sys.stderr, flush=True)

    def _create_bar(self, values: dict[str, Any]) -> None:
        from rich.console import Console  # noqa: PLC0415 - its import takes longer than a short simulation
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415

        ended = TextColumn("{task.fields[ended]}", markup=False)
        columns = TextColumn(self._what, markup=False), BarColumn(), TaskProgressColumn(), ended
        self._bar = Progress(
            *columns,
            TimeRemainingColumn(),
            console=Console(file=unescaped(sys.stderr), no_color=self._no_color or None),
            transient=True,
        )
        self._task = self._bar.add_task("", total=1.0, **values)
        self._bar.start()
