"""Ctrl-C, a closed terminal and SIGTERM, counted instead of obeyed: what they mean depends on who controls the job."""

from __future__ import annotations

import signal
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


class Interrupts:
    """`count` grows with each; `names` says which they were, as people call them."""

    def __init__(self) -> None:
        self.count = 0
        self.names: list[str] = []
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._came) for number in _SIGNALS}
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def note(self, name: str) -> None:
        """Something else that ends a foreground job."""
        self.count += 1
        self.names.append(name)

    def _came(self, number: int, _frame: object) -> None:
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        if number != signal.SIGHUP or name not in self.names:  # kernel and shell both tell of a closed terminal
            self.note(name)
