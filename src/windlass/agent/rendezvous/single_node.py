"""One node, nobody to meet: its agent leads itself."""

from __future__ import annotations

import time
from typing import Any, Callable

from windlass.agent import hang_detection
from windlass.agent.event_loop import EventLoop
from windlass.agent.rank_events import RankEvent
from windlass.agent.ranks.node_ranks import NodeRanks
from windlass.agent.rendezvous import state_machine
from windlass.agent.rendezvous.leader import Leader


class _Nobody:
    """There are no others."""

    def tell(self, who: str, message: dict[str, Any]) -> None:
        """Nobody."""

    def tell_all(self, message: dict[str, Any]) -> None:
        """Nobody."""

    def behind(self) -> list[hang_detection.SlowestRank]:
        """Nobody said anything."""
        return []


class SingleNode:
    """`close` is called once, with the run's end."""

    def __init__(
        self,
        loop: EventLoop,
        rules: state_machine.Rules,
        limits: hang_detection.HangLimits,
        me: state_machine.Peer,
        local: NodeRanks,
        close: Callable[[state_machine.EndRun], None],
    ) -> None:
        self._loop, self._rules, self._limits = loop, rules, limits
        self._me, self._local, self._close = me, local, close

    def begin(self) -> None:
        """Start the first generation."""
        begun = state_machine.Rendezvous(self._rules, time.monotonic())
        self._lead = Leader(self._loop, begun, self._me, self._local, _Nobody(), self._limits, self._close)

    def hear(self, event: RankEvent) -> None:
        """How the ranks do."""
        self._lead.hear(event)

    def leave(self) -> None:
        """There is nobody to hang up on."""
