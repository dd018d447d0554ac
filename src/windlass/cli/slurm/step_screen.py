"""Output and interrupts of `srun`: lines of tasks, with their numbers on request, and Ctrl-C twice to cancel."""

from __future__ import annotations

import time
from collections.abc import Mapping

from windlass.backends.local.logs import LogLine
from windlass.cli.terminal.interrupts import Interrupts
from windlass.cli.terminal.screen import Screen

_ABORT_S = 1.0
"""Seconds within which a second Ctrl-C cancels."""


class StepScreen(Screen):
    """Lines of tasks as they are, or after "3: "; messages begin with "srun: ". `quiet`: without messages."""

    def __init__(self, *, labelled: bool, quiet: bool) -> None:
        super().__init__(no_color=True)
        self._labelled, self._quiet = labelled, quiet

    def say(self, text: str) -> None:
        """Writes a message as a line."""
        if not self._quiet:
            super().say(f"srun: {text}")

    def state(self, text: str) -> None:
        """Writes what the job waits for."""
        if not self._quiet:
            super().state(f"srun: {text}")

    def rank(self, line: LogLine, nodes: Mapping[tuple[int, int], str], job: str = "") -> None:  # noqa: ARG002 - the base class's signature
        """Writes a line of a task."""
        if not self._labelled or line.file.rank < 0:
            self.bare(line)
        else:
            self.bare(line._replace(text=f"{line.file.rank}: {line.text}"))


class StepInterrupts(Interrupts):
    """Interrupts of which Ctrl-C counts only if a second one follows within a second."""

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self._screen, self._last = screen, 0.0

    def note(self, name: str) -> None:
        """Counts a signal, or the second Ctrl-C."""
        now = time.monotonic()
        if name != "Ctrl-C" or now - self._last <= _ABORT_S:
            super().note(name)
            return
        self._last = now
        self._screen.say(f"interrupt (one more within {_ABORT_S:g} sec to abort)")
