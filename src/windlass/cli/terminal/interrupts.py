"""Counts Ctrl-C, SIGHUP and SIGTERM instead of ending the process: their effect depends on what controls the job."""

from __future__ import annotations

import signal
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


class Interrupts:
    """Signal handlers while in context. `count` grows with each signal; `names` are their names for messages."""

    def __init__(self) -> None:
        self.count = 0
        self.names: list[str] = []
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def note(self, name: str) -> None:
        """Counts another event that ends a foreground job."""
        self.count += 1
        self.names.append(name)

    def _handle(self, number: int, _frame: object) -> None:
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        if (
            number != signal.SIGHUP or name not in self.names
        ):  # kernel and shell both send SIGHUP when a terminal closes
            self.note(name)
