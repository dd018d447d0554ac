"""Answers agents that connect to this one: accepts followers while it leads, else names the leader.

Every agent of a run on several nodes (`multi_node`) has such a server, because every agent may come to lead. `leader`
decides about generations; `followers` has the connections.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterable
from typing import Callable

from windlass.agent.event_loop import DelayedCall, EventLoop
from windlass.agent.hang_detection import HangLimits, SlowestRank
from windlass.agent.options import RendezvousOptions
from windlass.agent.rank_events import EVENT_TYPES
from windlass.agent.ranks.node_ranks import NodeRanks
from windlass.agent.rendezvous import state_machine
from windlass.agent.rendezvous.authentication import Authentication
from windlass.agent.rendezvous.connection import AgentConnection, Message
from windlass.agent.rendezvous.followers import FollowerConnections
from windlass.agent.rendezvous.leader import Leader
from windlass.agent.rendezvous.leader_search import Endpoint
from windlass.agent.rendezvous.role_changes import RoleChanges
from windlass.agent.rendezvous.roster import Roster
from windlass.agent.rendezvous.unproven_connections import UnprovenConnections

_CLOSE_TIMEOUT_S = 2.0
"""Time for followers to receive the end of the run."""
_ROSTER_DELAY_PER_FOLLOWER_S = 0.001
"""Delay of the roster, in which further agents come: it goes to all of them, and is as long as they are many."""
_OTHER_RUN = "the agents at this endpoint belong to another run: give all agents of a run the same --rdzv-id"


class LeaderServer:
    """The server's state: the `leader` and its followers while this agent leads.

    `find_leader`: endpoint of the leader that this agent follows.
    """

    def __init__(
        self,
        loop: EventLoop,
        rendezvous: RendezvousOptions,
        max_agents: int,
        roster: Roster,
        find_leader: Callable[[], Endpoint | None],
        roles: RoleChanges,
    ) -> None:
        self._loop, self._rendezvous, self._roster = loop, rendezvous, roster
        self._find_leader, self._roles = find_leader, roles
        self.leader: Leader | None = None
        self.followers = FollowerConnections()
        self._unproven = UnprovenConnections(loop, max_agents)
        self._roster_timer: DelayedCall | None = None
        self._ending: state_machine.EndRun | None = None

    @property
    def is_leading(self) -> bool:
        """Whether this agent leads a run that has not ended."""
        return self.leader is not None and self._ending is None

    def lead(
        self,
        rules: state_machine.RendezvousRules,
        limits: HangLimits,
        ranks: NodeRanks,
        expected: frozenset[str],
    ) -> None:
        """Leads from now on. `expected`: ids of agents that are known and may come."""
        me, now = self._roster.me, time.monotonic()
        state = state_machine.RendezvousState(
            rules, now, arrived=now, expected=expected, seen=me.generation, restarts=self._roster.restarts
        )
        self.leader = Leader(self._loop, state, me, ranks, self.followers, limits, self._end_run)

    def resign(self) -> None:
        """Stops leading."""
        if self.leader is not None:
            self.leader.resign()
            self.leader = None

    def hand_over(self, leader: Endpoint) -> None:
        """Sends the followers to another leader."""
        if self.leader is not None:
            self._roster.me = self._roster.me._replace(generation=self.leader.state.generation)
        self.followers.send_to_all({"type": "elsewhere", "host": leader.host, "port": leader.port})
        self.followers.close_all()

    def announcement(self, address: str) -> Message:
        """The message of this leader to the agent at the endpoint. `address`: used where the agent has none."""
        generation = self.leader.state.generation if self.leader is not None else 0
        me = self._roster.me
        place = {"host": me.address or address, "port": me.port}
        return {"type": "lead", "run": self._rendezvous.id, "generation": generation, "id": me.id, **place}

    def accept(self, listener: socket.socket) -> None:
        """Accepts one connection."""
        with contextlib.suppress(OSError):
            link, _ = listener.accept()
            authentication = Authentication(self._rendezvous.secret, accepts=True)
            self._unproven.add(AgentConnection(self._loop, link, self._receive, self._on_lost, authentication))

    def _end_run(self, ending: state_machine.EndRun) -> None:
        """Ends the run: this agent closes once all followers have closed their connections."""
        self._ending = ending
        self.followers.send_to_all({"type": "close", "code": ending.code, "reason": ending.reason})
        if not self.followers.connections:
            self._roles.close(ending)
        else:
            self._loop.after(_CLOSE_TIMEOUT_S, lambda: self._roles.close(ending))

    # --- messages of other agents ----------------------------------------------------------------------------

    def _receive(self, connection: AgentConnection, message: Message) -> None:
        try:
            if message["type"] == "hello":
                self._on_hello(connection, message)
            elif message["type"] == "lead":
                self._on_other_leader(connection, message)
            else:
                self._on_follower_message(connection, message)
        except (KeyError, TypeError, ValueError):  # the sender is no agent
            connection.lose()

    def _on_hello(self, connection: AgentConnection, message: Message) -> None:
        peer = state_machine.Peer(**message["peer"])
        if message["run"] != self._rendezvous.id:
            connection.send({"type": "refused", "reason": _OTHER_RUN})
        elif self.leader is None or self._ending is not None or _is_place_taken(peer, self.leader.state.present):
            connection.send(self._redirection())
        else:
            self.followers.add(peer.id, connection)
            peer = peer if peer.address else peer._replace(address=connection.peer_address)
            self.leader.apply(state_machine.AgentJoined(peer))
            self._send_roster_soon()

    def _redirection(self) -> Message:
        leader = self._find_leader()
        if leader is None:
            return {"type": "wait"}
        return {"type": "elsewhere", "host": leader.host, "port": leader.port}

    def _on_other_leader(self, connection: AgentConnection, message: Message) -> None:
        """Decides which of two leaders stays: the one with the newer generation."""
        me = self._roster.me
        if message["run"] != self._rendezvous.id or message["id"] == me.id:
            return
        if self.leader is None:
            connection.send(self._redirection())
        elif (self.leader.state.generation, me.id) < (message["generation"], message["id"]):
            self._roles.follow(Endpoint(message["host"], message["port"]))
        else:
            connection.send({"type": "elsewhere", "host": me.address, "port": me.port})

    def _on_follower_message(self, connection: AgentConnection, message: Message) -> None:
        agent = self.followers.find(connection)
        if agent is None or self.leader is None:
            return
        if message["type"] == "beat":
            self.followers.record_heartbeat(agent, message["generation"], SlowestRank(*message["behind"]))
            return
        event = EVENT_TYPES[message.pop("type")]
        self.leader.apply(event(**{**message, "agent_id": agent}))

    def _on_lost(self, connection: AgentConnection) -> None:
        agent = self.followers.find(connection)
        if agent is None:
            return
        self.followers.remove(agent)
        if self._ending is not None:
            if not self.followers.connections:
                self._roles.close(self._ending)
        elif self.leader is not None:
            self.leader.apply(state_machine.AgentLost(agent))
            self._send_roster_soon()

    def _send_roster_soon(self) -> None:
        if self._roster_timer is None:
            delay = _ROSTER_DELAY_PER_FOLLOWER_S * len(self.followers.connections)
            self._roster_timer = self._loop.after(delay, self._send_roster)

    def _send_roster(self) -> None:
        self._roster_timer = None
        if self.leader is not None:
            state = self.leader.state
            me = self._roster.me
            self._roster.peers = (me, *(peer for peer in state.present if peer.id != me.id))
            peers = [peer._asdict() for peer in self._roster.peers]
            self.followers.send_to_all({"type": "roster", "peers": peers, "restarts": state.restarts})


def _is_place_taken(peer: state_machine.Peer, present: Iterable[state_machine.Peer]) -> bool:
    """Whether another agent has the same --node-rank: it may be about to be found lost."""
    return peer.place >= 0 and any(each.place == peer.place and each.id != peer.id for each in present)
