"""How far a long computation is: a bar on a terminal, a line now and then elsewhere, nothing if it is soon over."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Self

_SILENT = 2.0
"""Seconds: what is over by then says nothing."""


class ProgressBar:
    """Call it with how far it is: (share in [0, 1], parts that ended, parts in all). Writes to stderr."""

    def __init__(self, what: str, *, no_color: bool) -> None:
        self._what = what
        self._no_color = no_color
        self._in_place = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._begin = time.monotonic()
        self._said = 0
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, share: float, ended: int, parts: int) -> None:
        """Told often; says something seldom."""
        if time.monotonic() - self._begin < _SILENT:
            return
        if not self._in_place:
            self._line(ended, parts)
            return
        told = {"completed": share, "ended": f"{ended} of {parts}"}
        if self._bar is None:
            self._draw(told)
        self._bar.update(self._task, **told)

    def _line(self, ended: int, parts: int) -> None:
        if ended > self._said:
            self._said = ended
            print(f"{self._what}: {ended} of {parts} done", file=sys.stderr, flush=True)

    def _draw(self, told: dict[str, Any]) -> None:
        from rich.console import Console  # noqa: PLC0415 - costs more than a short simulation
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415

        columns = TextColumn(self._what), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[ended]}")
        self._bar = Progress(
            *columns,
            TimeRemainingColumn(),
            console=Console(stderr=True, no_color=self._no_color or None),
            transient=True,
        )
        self._task = self._bar.add_task("", total=1.0, **told)
        self._bar.start()
