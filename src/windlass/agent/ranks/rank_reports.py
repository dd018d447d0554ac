"""Reports events of this node's ranks to the rendezvous: from the event loop, never within a call."""

from __future__ import annotations

from typing import Callable

from windlass.agent.event_loop import EventLoop
from windlass.agent.rank_events import FINAL, UNCOUNTED, RankEvent, RankFailed
from windlass.agent.ranks.rank_table import RankTable
from windlass.wire import RankExitCode


class RankReports:
    """The queue of events for the function `report`."""

    def __init__(self, loop: EventLoop, table: RankTable, report: Callable[[RankEvent], None]) -> None:
        self._loop, self._table, self._report = loop, table, report

    def send(self, event: RankEvent) -> None:
        """Reports an event in the next round of the event loop."""
        self._loop.after(0, lambda: self._report(event))

    def fail(self, code: RankExitCode, reason: str) -> None:
        """Reports a failure that is not a rank's own exit."""
        charged_to = FINAL if code is RankExitCode.FATAL else UNCOUNTED
        self.send(RankFailed("", self._table.generation, int(code), reason, charged_to))
