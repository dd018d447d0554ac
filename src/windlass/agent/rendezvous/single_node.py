"""Rendezvous of a one-node run: an in-process leader without followers."""

from __future__ import annotations

import time
from typing import Any, Callable

from windlass.agent import hang_detection
from windlass.agent.event_loop import EventLoop
from windlass.agent.rank_events import RankEvent
from windlass.agent.ranks.node_ranks import NodeRanks
from windlass.agent.rendezvous import state_machine
from windlass.agent.rendezvous.leader import Leader


class _NoFollowers:
    """Null `Followers`."""

    def send(self, agent: str, message: dict[str, Any]) -> None:
        """Does nothing."""

    def send_to_all(self, message: dict[str, Any]) -> None:
        """Does nothing."""

    def slowest_ranks(self, _generation: int, /) -> list[hang_detection.SlowestRank]:
        """Returns no reports."""
        return []


class SingleNode:
    """The membership source of a one-node run. Calls `close` once, at the end of the run."""

    def __init__(
        self,
        loop: EventLoop,
        rules: state_machine.RendezvousRules,
        limits: hang_detection.HangLimits,
        me: state_machine.Peer,
        ranks: NodeRanks,
        close: Callable[[state_machine.EndRun], None],
    ) -> None:
        self._loop, self._rules, self._limits = loop, rules, limits
        self._me, self._ranks, self._close = me, ranks, close

    def begin(self) -> None:
        """Starts the first generation."""
        state = state_machine.RendezvousState(self._rules, time.monotonic())
        followers = _NoFollowers()
        self._leader = Leader(self._loop, state, self._me, self._ranks, followers, self._limits, self._close)

    def on_rank_event(self, event: RankEvent) -> None:
        """Takes an event of this node's ranks."""
        self._leader.apply(event._replace(agent_id=self._me.id))

    def leave(self) -> None:
        """Does nothing: there are no connections."""
