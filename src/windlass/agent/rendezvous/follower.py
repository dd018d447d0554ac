"""The following agent: finds the leading agent (`leader_server`), joins it, and carries out its orders.

`multi_node` decides between following and leading; `leader_search` calls the endpoints at which the leader may be.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence

from windlass import wire
from windlass.agent import messages
from windlass.agent.event_loop import EventLoop
from windlass.agent.options import Options, RendezvousOptions
from windlass.agent.rank_events import RankEvent, message_of
from windlass.agent.ranks.node_ranks import NodeRanks
from windlass.agent.rendezvous.authentication import Authentication
from windlass.agent.rendezvous.connection import AgentConnection, Message
from windlass.agent.rendezvous.leader import dump_stacks
from windlass.agent.rendezvous.leader_search import Endpoint, LeaderSearch
from windlass.agent.rendezvous.role_changes import RoleChanges
from windlass.agent.rendezvous.roster import Roster
from windlass.agent.rendezvous.state_machine import EndRun, Peer


class Follower:
    """The follower's side: a search for the leader, or a connection to it, or neither while this agent leads."""

    def __init__(
        self,
        loop: EventLoop,
        options: Options,
        rendezvous: RendezvousOptions,
        roster: Roster,
        ranks: NodeRanks,
        roles: RoleChanges,
    ) -> None:
        self._loop, self._options, self._rendezvous = loop, options, rendezvous
        self._roster, self._ranks, self._roles = roster, ranks, roles
        self._search: LeaderSearch | None = None
        self._connection: AgentConnection | None = None
        self._has_warned = False

    @property
    def connections(self) -> list[AgentConnection]:
        """The connection to the leader, if there is one."""
        return [self._connection] if self._connection is not None else []

    def find_leader(self) -> Endpoint | None:
        """Endpoint of the leader that this agent follows; None if it follows none."""
        if self._connection is None or not self._roster.peers:
            return None
        return Endpoint(self._roster.peers[0].address, self._roster.peers[0].port)

    def search(self, endpoints: Sequence[Endpoint]) -> None:
        """Searches for the leader at these endpoints."""
        timeout = self._rendezvous.join_timeout
        calls = self._ask_to_join, self._on_no_answer, self._give_up
        self._search = LeaderSearch(self._loop, endpoints, timeout, *calls)

    def end_search(self) -> None:
        """Ends the search: there is a leader."""
        if self._search is not None:
            self._search.cancel()
            self._search = None

    def report(self, event: RankEvent) -> None:
        """Sends an event of this node's ranks to the leader."""
        if self._connection is not None:
            self._connection.send(message_of(event._replace(agent_id=self._roster.me.id)))

    # --- search ------------------------------------------------------------------------------------------

    def _ask_to_join(self, link: socket.socket | None) -> None:
        """Asks the agent that answers to accept this one; leads if this agent is next in the roster (no `link`)."""
        roster = self._roster
        if link is None:
            lost = roster.peers[0].id if roster.peers else ""
            self._roles.lead(frozenset(peer.id for peer in roster.peers) - {lost})
            return
        authentication = Authentication(self._rendezvous.secret, accepts=False)
        connection = AgentConnection(self._loop, link, self._receive, self._on_lost, authentication)
        if not self._options.local_addr:
            roster.me = roster.me._replace(address=connection.own_address)
        self._connection = connection
        connection.send({"type": "hello", "run": self._rendezvous.id, "peer": roster.me._asdict()})

    def _on_no_answer(self) -> None:
        """Leads if this machine can listen at the endpoint by now; only before there was a leader."""
        if not self._roster.peers:
            self._roles.lead_at_endpoint()

    def _give_up(self) -> None:
        where, waited = f"{self._rendezvous.host}:{self._rendezvous.port}", self._rendezvous.join_timeout
        reason = f"no agent leads this run at {where} after {waited:.0f} s: is its agent there?"
        self._roles.close(EndRun(1, reason))

    def _warn_of_secret(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            messages.print_message(
                "no process that answers has proved the secret of this run yet: do all of its agents have the same "
                f"{wire.GANG_SECRET}?"
            )

    # --- messages of the leader ----------------------------------------------------------------------------

    def _receive(self, connection: AgentConnection, message: Message) -> None:
        try:
            self._carry_out(connection, message)
        except (KeyError, TypeError, ValueError):
            connection.lose()

    def _carry_out(self, connection: AgentConnection, message: Message) -> None:
        kind = message["type"]
        if kind == "roster":
            self._roster.peers = tuple(Peer(**peer) for peer in message["peers"])
            self._roster.restarts = message["restarts"]
            self.end_search()
        elif kind == "start":
            self._start_ranks(message)
        elif kind == "halt":
            self._ranks.stop(message["generation"], message["reason"], graceful=message["planned"])
        elif kind == "dump_stacks":
            dump_stacks(self._loop, self._ranks, message["rank"])
        elif kind in {"close", "refused"}:
            connection.close()
            self._roles.close(EndRun(message["code"] if kind == "close" else 1, message["reason"]))
        elif kind in {"wait", "elsewhere"}:
            self._on_redirection(connection, message)

    def _start_ranks(self, message: Message) -> None:
        membership = wire.decode(json.dumps(message["membership"]).encode())
        assert isinstance(membership, wire.Membership)  # noqa: S101 - each order to start has one
        self._roster.me = self._roster.me._replace(generation=membership.generation)
        self._ranks.start(membership, None, keep=message["keep"], reason=message["reason"])

    def _on_redirection(self, connection: AgentConnection, message: Message) -> None:
        connection.close()
        self._connection = None
        elsewhere = message["type"] == "elsewhere"
        leader = Endpoint(str(message["host"]), int(message["port"])) if elsewhere else None
        if self._search is not None:
            self._search.redirect(leader)
        elif leader is not None:  # a leader that yields to another one
            self._roles.search_when_stopped("another agent leads", [leader])

    def _on_lost(self, connection: AgentConnection) -> None:
        """Searches for the next leader: the agents before this one in the roster, then this one."""
        self._connection = None
        if self._search is not None:
            if connection.is_peer_proven:
                self._search.redirect(None)
            else:
                self._warn_of_secret()
                self._search.skip()
            return
        ids = [peer.id for peer in self._roster.peers]
        place = ids.index(self._roster.me.id) if self._roster.me.id in ids else len(ids)
        before = [Endpoint(peer.address, peer.port) for peer in self._roster.peers[:place]]
        messages.print_message("the leading agent is lost: looking for the next one")
        self._roles.search_when_stopped("the leading agent is lost", [*before, Endpoint.own()])
