"""Rendezvous of a run on several nodes: agents meet at the rendezvous endpoint, one leads, the others follow.

The first agent that can listen at the endpoint leads. It sends the roster to all: the agents in order, with addresses.
When the leader is lost, each follower stops its ranks and calls the agents before it in the roster; one that reaches
none of them leads. A leader that cannot listen at the endpoint announces itself there, so that new agents find it.

This module switches between the two roles: `leader_server` and `leader` lead, `follower` follows.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Sequence
from typing import Any, Callable

from windlass.agent import messages
from windlass.agent.event_loop import EventLoop
from windlass.agent.options import Options, RendezvousOptions
from windlass.agent.rank_events import RankEvent, RanksStopped
from windlass.agent.ranks.node_ranks import NodeRanks
from windlass.agent.rendezvous import sockets, state_machine
from windlass.agent.rendezvous.connection import AgentConnection
from windlass.agent.rendezvous.endpoint import RendezvousEndpoint
from windlass.agent.rendezvous.follower import Follower
from windlass.agent.rendezvous.leader_announcement import LeaderAnnouncement
from windlass.agent.rendezvous.leader_search import Endpoint
from windlass.agent.rendezvous.leader_server import LeaderServer
from windlass.agent.rendezvous.roster import Roster


class MultiNode:
    """The membership source of a run on several nodes: leads or follows, and changes between the two.

    Calls `close` once, at the end of the run. `rules` apply if this agent leads.
    """

    def __init__(
        self,
        loop: EventLoop,
        options: Options,
        rendezvous: RendezvousOptions,
        rules: state_machine.RendezvousRules,
        me: state_machine.Peer,
        ranks: NodeRanks,
        close: Callable[[state_machine.EndRun], None],
    ) -> None:
        self._loop, self._options, self._rendezvous, self._rules = loop, options, rendezvous, rules
        self._ranks, self.close = ranks, close
        interface = "" if options.local_addr else sockets.choose_interface(rendezvous.host)
        listener = sockets.listen(interface)
        self._roster = Roster(me._replace(port=listener.getsockname()[1]))
        self._follower = Follower(loop, options, rendezvous, self._roster, ranks, self)
        self._server = LeaderServer(loop, rendezvous, options.nodes[1], self._roster, self._follower.find_leader, self)
        self._endpoint = RendezvousEndpoint(loop, rendezvous, interface, self._server.accept)
        self._next_search: Sequence[Endpoint] | None = None
        """Endpoints at which to search for the leader once the ranks of this node are stopped."""
        loop.watch(listener, lambda: self._server.accept(listener))
        loop.after(rendezvous.interval, self._send_heartbeats)
        LeaderAnnouncement(loop, rendezvous, self._endpoint, self._server, self._roster, self.follow)

    def begin(self) -> None:
        """Leads if the endpoint is free and on this machine, else searches for the leader."""
        if not self.lead_at_endpoint():
            self._follower.search([Endpoint(self._rendezvous.host, self._rendezvous.port)])

    def on_rank_event(self, event: RankEvent) -> None:
        """Takes an event of this node's ranks."""
        if isinstance(event, RanksStopped) and self._next_search is not None:
            endpoints, self._next_search = self._next_search, None
            self._follower.search(endpoints)
        elif self._server.leader is not None:
            self._server.leader.apply(event._replace(agent_id=self._roster.me.id))
        else:
            self._follower.report(event)

    def leave(self) -> None:
        """Closes all connections."""
        for connection in self._connections():
            connection.close()

    # --- changes of the role (role_changes.RoleChanges) -----------------------------------------------------

    def lead_at_endpoint(self) -> bool:
        """Leads if this agent can listen at the rendezvous endpoint. Returns whether it does."""
        is_there = self._endpoint.listen()
        if is_there:
            self.lead(frozenset())
        return is_there

    def lead(self, expected: frozenset[str]) -> None:
        """Leads from now on. `expected`: ids of agents that are known and may come."""
        self._follower.end_search()
        self._endpoint.listen()
        if not self._roster.me.address:
            self._roster.me = self._roster.me._replace(address=_resolve_address(self._rendezvous.host))
        self._server.lead(self._rules, self._options.limits, self._ranks, expected)

    def follow(self, leader: Endpoint) -> None:
        """Stops leading and follows another leader."""
        messages.print_message(f"another agent leads this run at {leader.host}:{leader.port}: following it")
        self._server.hand_over(leader)
        self.search_when_stopped("another agent leads", [leader])

    def search_when_stopped(self, reason: str, endpoints: Sequence[Endpoint]) -> None:
        """Stops leading, stops the ranks, then searches for the leader: only an agent without ranks may join others."""
        self._server.resign()
        self._next_search = endpoints
        self._ranks.stop(self._ranks.generation, reason)

    # --- heartbeats of agents ----------------------------------------------------------------------------------

    def _connections(self) -> list[AgentConnection]:
        return [*self._server.followers.connections, *self._follower.connections]

    def _send_heartbeats(self) -> None:
        self._loop.after(self._rendezvous.interval, self._send_heartbeats)
        slowest = list(self._ranks.slowest_rank(time.monotonic()))
        heartbeat: dict[str, Any] = {"type": "beat", "generation": self._ranks.generation, "behind": slowest}
        for connection in self._connections():
            connection.beat(heartbeat, self._rendezvous.attempts)


def _resolve_address(host: str) -> str:
    """An address of this machine for others, given its name in the endpoint."""
    with contextlib.suppress(OSError):
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    return host
