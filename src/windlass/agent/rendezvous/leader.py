"""The leading agent: applies the rules of `state_machine` to events, and carries out their actions on all nodes.

`SingleNode` has a leader without followers. `leader_server` creates one for several nodes; `followers` has the
connections to the other agents.
"""

from __future__ import annotations

import json
import time
from typing import Any, Callable, Protocol

from windlass import wire
from windlass.agent import hang_detection, messages
from windlass.agent.event_loop import DelayedCall, EventLoop
from windlass.agent.rank_events import RankEvent, RankFailed
from windlass.agent.ranks.node_ranks import NodeRanks
from windlass.agent.rendezvous import sockets, state_machine

_HANG_CHECK_INTERVAL_S = 1.0
_DUMP_TIME_S = 0.5
"""Time for ranks that hang to write their stacks."""


class Followers(Protocol):
    """The interface to the agents that follow this one."""

    def send(self, agent: str, message: dict[str, Any]) -> None:
        """Sends to one of them, by its id."""

    def send_to_all(self, message: dict[str, Any]) -> None:
        """Sends to each of them."""

    def slowest_ranks(self, generation: int, /) -> list[hang_detection.SlowestRank]:
        """The newest report of each of them on this generation; older ones are left out."""


class Leader:
    """The rendezvous state machine with its timers, its ranks and its followers. Calls `close` once, at the end."""

    def __init__(
        self,
        loop: EventLoop,
        state: state_machine.RendezvousState,
        me: state_machine.Peer,
        ranks: NodeRanks,
        followers: Followers,
        limits: hang_detection.HangLimits,
        close: Callable[[state_machine.EndRun], None],
    ) -> None:
        self._loop, self._state, self._me, self._ranks, self._followers = loop, state, me, ranks, followers
        self._limits, self._close = limits, close
        self._timer: DelayedCall | None = None
        self._hanging_generation = 0
        """The last generation that was found to hang."""
        self.apply(state_machine.AgentJoined(me))
        self._hang_timer = loop.after(_HANG_CHECK_INTERVAL_S, self._check_for_hang)

    @property
    def state(self) -> state_machine.RendezvousState:
        """The current state of the rules."""
        return self._state

    def apply(self, event: state_machine.Event) -> None:
        """Applies the rules to an event and carries out the actions."""
        self._state, actions = state_machine.step(self._state, event, time.monotonic())
        for action in actions:
            self._carry_out(action)
        if self._timer is not None:
            self._timer.cancel()
        at = state_machine.deadline(self._state)
        if at is not None:
            delay = max(0.0, at - time.monotonic())
            self._timer = self._loop.after(delay, lambda: self.apply(state_machine.TimePassed()))

    def resign(self) -> None:
        """Stops leading: another agent leads from now on."""
        self._hang_timer.cancel()
        if self._timer is not None:
            self._timer.cancel()

    def _carry_out(self, action: state_machine.Action) -> None:
        if isinstance(action, state_machine.StartGeneration):
            self._start_generation(action)
        elif isinstance(action, state_machine.StopRanks):
            self._followers.send_to_all({"type": "halt", **action._asdict()})
            self._ranks.stop(action.generation, action.reason, graceful=action.planned)
            wait = self._state.not_before - time.monotonic()
            if wait > 0 and self._state.ending is None:
                failed = f"{self._state.failures_in_a_row} starts in a row have ended badly"
                messages.print_message(f"{failed}: the next one waits {wait:.1f} s")
        else:
            self._close(action)

    def _start_generation(self, action: state_machine.StartGeneration) -> None:
        listener = sockets.listen(sockets.choose_interface(self._me.address))
        membership = wire.Membership(
            action.generation,
            tuple(wire.MemberNode(peer.node, peer.address, peer.ranks) for peer in action.members),
            listener.getsockname()[1],
            address=self._me.address,
            restarts=action.restarts,
        )
        fields = json.loads(wire.encode(membership))
        for index, peer in enumerate(action.members):
            if peer.id == self._me.id:
                own = membership._replace(me=index)
                self._ranks.start(own, listener, keep=action.keep, reason=action.reason)
            else:
                order = {"membership": {**fields, "me": index}, "keep": action.keep, "reason": action.reason}
                self._followers.send(peer.id, {"type": "start", **order})

    def _check_for_hang(self) -> None:
        """Checks for a hang once a second; ranks of a gang that hangs write their stacks before they are stopped."""
        self._hang_timer = self._loop.after(_HANG_CHECK_INTERVAL_S, self._check_for_hang)
        generation = self._state.generation
        if self._state.phase is not state_machine.RendezvousPhase.RUNNING or self._hanging_generation == generation:
            return
        nodes = [self._ranks.slowest_rank(time.monotonic()), *self._followers.slowest_ranks(generation)]
        hang = hang_detection.detect_hang(nodes, self._limits)
        if hang is not None:
            rank, reason = hang
            self._hanging_generation = generation
            self._followers.send_to_all({"type": "dump_stacks", "rank": rank})
            dump_stacks(self._loop, self._ranks, rank)
            self._ranks.settings.report(wire.RankFailure(generation, "hang", rank, 1, f"hang: {reason}"))
            failed = RankFailed(self._me.id, generation, 1, f"hang: {reason}", hangs=True)
            self._loop.after(_DUMP_TIME_S, lambda: self.apply(failed))


def dump_stacks(loop: EventLoop, ranks: NodeRanks, rank: int) -> None:
    """Makes all ranks of this node write their stacks, and prints those of the suspect."""
    ranks.request_dumps()

    def print_stacks() -> None:
        stacks = ranks.read_stacks(rank)
        if stacks:
            messages.print_message(f"rank {rank}, where it hangs:\n{stacks}")

    loop.after(_DUMP_TIME_S / 2, print_stacks)


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
