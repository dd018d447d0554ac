"""One node, nobody to meet: its agent leads itself."""

from __future__ import annotations

import time
from typing import Any, Callable

from windlass.agent import crew, hang
from windlass.agent.lead import Lead
from windlass.agent.local import Local, Report
from windlass.agent.loop import Loop


class _Nobody:
    """There are no others."""

    def tell(self, who: str, message: dict[str, Any]) -> None:
        """Nobody."""

    def tell_all(self, message: dict[str, Any]) -> None:
        """Nobody."""

    def behind(self) -> list[hang.Behind]:
        """Nobody said anything."""
        return []


class Alone:
    """`close` is called once, with the run's end."""

    def __init__(
        self,
        loop: Loop,
        rules: crew.Rules,
        limits: hang.Limits,
        me: crew.Peer,
        local: Local,
        close: Callable[[crew.Close], None],
    ) -> None:
        self._loop, self._rules, self._limits = loop, rules, limits
        self._me, self._local, self._close = me, local, close

    def begin(self) -> None:
        """Start the first generation."""
        begun = crew.Crew(self._rules, time.monotonic())
        self._lead = Lead(self._loop, begun, self._me, self._local, _Nobody(), self._limits, self._close)

    def hear(self, report: Report) -> None:
        """How the ranks do."""
        self._lead.hear(report)

    def leave(self) -> None:
        """There is nobody to hang up on."""
