"""The leading agent's work: feed what is heard to the crew's rules, and have what they decide done everywhere."""

from __future__ import annotations

import json
import socket
import time
from typing import Any, Callable, Protocol

from windlass import wire
from windlass.agent import hang_detection, messages
from windlass.agent.event_loop import EventLoop, Timer
from windlass.agent.rank_events import RankEvent, RankFailed
from windlass.agent.ranks.node_ranks import NodeRanks
from windlass.agent.rendezvous import sockets
from windlass.agent.rendezvous import state_machine as rules

_LOOK = 1.0
"""Seconds between looks at who is behind."""
_TO_WRITE = 0.5
"""Seconds for ranks that hang to write down where they are."""


class Followers(Protocol):
    """The agents that follow this one."""

    def tell(self, who: str, message: dict[str, Any]) -> None:
        """One of them, by its id."""

    def tell_all(self, message: dict[str, Any]) -> None:
        """Each of them."""

    def behind(self) -> list[hang_detection.SlowestRank]:
        """What each of them said last about its ranks."""


class Leader:
    """`close` is called once, with the run's end."""

    def __init__(
        self,
        loop: EventLoop,
        begun: rules.Rendezvous,
        me: rules.Peer,
        local: NodeRanks,
        others: Followers,
        limits: hang_detection.HangLimits,
        close: Callable[[rules.EndRun], None],
    ) -> None:
        self._loop, self._crew, self._me, self._local, self._others = loop, begun, me, local, others
        self._limits, self._close = limits, close
        self._timer: Timer | None = None
        self._accused = 0
        self.feed(rules.AgentJoined(me))
        self._look_again = loop.after(_LOOK, self._look)

    @property
    def crew(self) -> rules.Rendezvous:
        """How things stand."""
        return self._crew

    def feed(self, event: rules.Event) -> None:
        """Something has happened."""
        self._crew, actions = rules.step(self._crew, event, time.monotonic())
        for action in actions:
            self._do(action)
        if self._timer is not None:
            self._timer.cancel()
        at = rules.deadline(self._crew)
        if at is not None:
            self._timer = self._loop.after(max(0.0, at - time.monotonic()), lambda: self.feed(rules.TimePassed()))

    def hear(self, event: RankEvent) -> None:
        """From the ranks of the leader's own node."""
        self.feed(event._replace(id=self._me.id))

    def resign(self) -> None:
        """Another agent leads from now on."""
        self._look_again.cancel()
        if self._timer is not None:
            self._timer.cancel()

    def _do(self, action: rules.Action) -> None:
        if isinstance(action, rules.StartGeneration):
            self._publish(action)
        elif isinstance(action, rules.StopRanks):
            self._others.tell_all({"say": "halt", **action._asdict()})
            self._local.halt(action.generation, action.why, planned=action.planned)
            wait = self._crew.not_before - time.monotonic()
            if wait > 0 and self._crew.verdict is None:
                messages.print_message(
                    f"{self._crew.quick} starts in a row have ended badly: the next one waits {wait:.1f} s"
                )
        else:
            self._close(action)

    def _publish(self, decided: rules.StartGeneration) -> None:
        listener = sockets.listen(sockets.choose_interface(self._me.address))
        membership = wire.Membership(
            decided.generation,
            tuple(wire.Member(peer.node, peer.address, peer.ranks) for peer in decided.members),
            listener.getsockname()[1],
            address=self._me.address,
            restarts=decided.restarts,
        )
        for place, peer in enumerate(decided.members):
            told = membership._replace(me=place)
            if peer.id == self._me.id:
                start_ranks(self._local, told, listener, keep=decided.keep, why=decided.why)
            else:
                spoken = {"membership": json.loads(wire.encode(told)), "keep": decided.keep, "why": decided.why}
                self._others.tell(peer.id, {"say": "start", **spoken})

    def _look(self) -> None:
        """Whether the gang hangs; if so, it is asked where it is before it is stopped."""
        self._look_again = self._loop.after(_LOOK, self._look)
        running = self._crew.phase is rules.Phase.RUNNING and self._accused != self._crew.generation
        if not running:
            return
        verdict = hang_detection.detect_hang(
            [self._local.behind(time.monotonic()), *self._others.behind()], self._limits
        )
        if verdict is not None:
            rank, why = verdict
            self._accused = self._crew.generation
            self._others.tell_all({"say": "interrogate", "rank": rank})
            interrogate(self._loop, self._local, rank)
            self._local.supervised.say(wire.Verdict(self._crew.generation, "hang", rank, 1, f"hang: {why}"))
            failed = RankFailed(self._me.id, self._crew.generation, 1, f"hang: {why}", hangs=True)
            self._loop.after(_TO_WRITE, lambda: self.feed(failed))


def start_ranks(
    local: NodeRanks, membership: wire.Membership, listener: socket.socket | None, *, keep: bool, why: str
) -> None:
    """Have this node's ranks be of this generation: anew, or those that run with those that are missing."""
    if keep:
        local.reform(membership, listener, why)
    else:
        local.start(membership, listener)


def interrogate(loop: EventLoop, local: NodeRanks, rank: int) -> None:
    """Have all ranks of this node write down where they are, and print what the accused one says."""
    local.interrogate()

    def read() -> None:
        said = local.testimony(rank)
        if said:
            messages.print_message(f"rank {rank}, where it hangs:\n{said}")

    loop.after(_TO_WRITE / 2, read)
