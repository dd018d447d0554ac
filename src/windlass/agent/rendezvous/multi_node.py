"""Memberships of a run on several nodes: agents meet at the rendezvous endpoint, one leads, the others follow.

The first agent that can listen at the endpoint leads. It sends the roster to all: the agents in order, with addresses.
When the leader is lost, each follower stops its ranks and calls the agents before it in the roster; one that reaches
none of them leads. A leader that is not at the endpoint calls there every few seconds, and tells a newcomer who leads.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from typing import Any, Callable

from windlass import wire
from windlass.agent import hang_detection, messages
from windlass.agent.event_loop import EventLoop
from windlass.agent.options import Options, RendezvousOptions
from windlass.agent.rank_events import NAMES, RankEvent, RanksStopped, message_of
from windlass.agent.ranks.node_ranks import NodeRanks
from windlass.agent.rendezvous import sockets, state_machine
from windlass.agent.rendezvous.connection import AgentConnection, Message
from windlass.agent.rendezvous.leader import Leader, interrogate, start_ranks
from windlass.agent.rendezvous.leader_search import Endpoint, LeaderSearch

_ENDPOINT_INTERVAL_S = 2.0
_CLOSE_TIMEOUT_S = 2.0
"""Time for followers to receive the end of the run."""


class MultiNode:
    """Calls `close` once, at the end of the run. `rules` apply if this agent leads."""

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
        self._loop, self._options, self._rendezvous, self._rules, self._me = loop, options, rendezvous, rules, me
        self._ranks, self._close = ranks, close
        self._leader: Leader | None = None
        """Set while this agent leads."""
        self._to_leader: AgentConnection | None = None
        """Set while another agent leads."""
        self._search: LeaderSearch | None = None
        self._followers: dict[str, AgentConnection] = {}
        self._slowest: dict[str, tuple[int, hang_detection.SlowestRank]] = {}
        """Generation and slowest rank of each follower, by its id."""
        self._roster: tuple[state_machine.Peer, ...] = ()
        self._restarts = 0
        self._at_endpoint: socket.socket | None = None
        self._attempt: sockets.ConnectAttempt | None = None
        self._ending: state_machine.EndRun | None = None
        self._when_stopped: Callable[[], None] | None = None
        """The next step of this agent, to be taken once its ranks are stopped."""
        self._interface = "" if options.local_addr else sockets.choose_interface(rendezvous.host)
        self._server = sockets.listen(self._interface)
        self._me = me._replace(port=self._server.getsockname()[1])
        loop.watch(self._server, lambda: self._accept(self._server))
        loop.after(rendezvous.interval, self._beat)
        loop.after(_ENDPOINT_INTERVAL_S, self._watch_endpoint)

    def begin(self) -> None:
        """Leads if the endpoint is free and on this machine, else searches for the leader."""
        self._take_endpoint()
        if self._at_endpoint is not None:
            self._take_lead(frozenset())
        else:
            self._search_leader([Endpoint(self._rendezvous.host, self._rendezvous.port)])

    # --- messages to followers (leader.Followers) --------------------------------------------------------

    def send(self, agent: str, message: Message) -> None:
        """Sends to one follower."""
        if agent in self._followers:
            self._followers[agent].send(message)

    def send_to_all(self, message: Message) -> None:
        """Sends to every follower."""
        for connection in list(self._followers.values()):
            connection.send(message)

    def slowest_ranks(self) -> list[hang_detection.SlowestRank]:
        """The newest reports of followers on the current generation; older ones say nothing about it."""
        current = self._leader.state.generation if self._leader is not None else 0
        reports = [each for agent, each in self._slowest.items() if agent in self._followers]
        return [slowest for generation, slowest in reports if generation == current]

    # --- events of this node's ranks -----------------------------------------------------------------------

    def on_rank_event(self, event: RankEvent) -> None:
        """Takes an event of this node's ranks."""
        if isinstance(event, RanksStopped) and self._when_stopped is not None:
            call, self._when_stopped = self._when_stopped, None
            call()
        elif self._leader is not None:
            self._leader.on_rank_event(event)
        elif self._to_leader is not None:
            self._to_leader.send(message_of(event._replace(id=self._me.id)))

    def leave(self) -> None:
        """Closes all connections."""
        for connection in self._connections():
            connection.close()

    def _connections(self) -> list[AgentConnection]:
        return [*self._followers.values(), *([self._to_leader] if self._to_leader else [])]

    # --- leading -------------------------------------------------------------------------------------------

    def _take_endpoint(self) -> None:
        if self._at_endpoint is not None or self._rendezvous.is_host is False:
            return
        if self._rendezvous.is_host:
            with contextlib.suppress(OSError):
                self._at_endpoint = sockets.listen(self._interface, self._rendezvous.port)
        else:
            self._at_endpoint = sockets.listen_if_local(self._rendezvous.host, self._rendezvous.port)
        if self._at_endpoint is not None:
            listener = self._at_endpoint
            self._loop.watch(listener, lambda: self._accept(listener))

    def _take_lead(self, expected: frozenset[str]) -> None:
        self._end_search()
        self._take_endpoint()
        if not self._me.address:
            self._me = self._me._replace(address=_address_of(self._rendezvous.host))
        state = state_machine.RendezvousState(
            self._rules,
            time.monotonic(),
            arrived=time.monotonic(),
            expected=expected,
            seen=self._me.generation,
            restarts=self._restarts,
        )
        self._leader = Leader(self._loop, state, self._me, self._ranks, self, self._options.limits, self._end_run)

    def _end_run(self, verdict: state_machine.EndRun) -> None:
        """Ends the run: this agent goes once all followers know it."""
        self._ending = verdict
        self.send_to_all({"type": "close", "code": verdict.code, "why": verdict.why})
        if not self._followers:
            self._close(verdict)
        else:
            self._loop.after(_CLOSE_TIMEOUT_S, lambda: self._close(verdict))

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            link, _ = listener.accept()
            AgentConnection(self._loop, link, self._receive_as_server, self._on_follower_lost)

    def _receive_as_server(self, connection: AgentConnection, message: Message) -> None:
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
            why = f"here is run {self._rendezvous.id}, not {message['run']} (--rdzv-id)"
            connection.send({"type": "refused", "why": why})
        elif self._leader is None or self._ending is not None or self._is_place_taken(peer):
            connection.send(self._redirection())
        else:
            peer = peer if peer.address else peer._replace(address=connection.peer_address)
            before = self._followers.pop(peer.id, None)
            self._followers[peer.id] = connection
            if before is not None:
                before.close()
            self._leader.apply(state_machine.AgentJoined(peer))
            self._send_roster()

    def _is_place_taken(self, peer: state_machine.Peer) -> bool:
        """Whether another agent has the same --node-rank: it may be about to be found lost."""
        present = self._leader.state.present if self._leader is not None else ()
        return peer.place >= 0 and any(each.place == peer.place and each.id != peer.id for each in present)

    def _redirection(self) -> Message:
        if self._to_leader is None or not self._roster:
            return {"type": "wait"}
        return {"type": "elsewhere", "host": self._roster[0].address, "port": self._roster[0].port}

    def _on_follower_message(self, connection: AgentConnection, message: Message) -> None:
        agent = self._agent_of(connection)
        if agent is None or self._leader is None:
            return
        if message["type"] == "beat":
            self._slowest[agent] = message["generation"], hang_detection.SlowestRank(*message["behind"])
            return
        event = NAMES[message.pop("type")]
        self._leader.apply(event(**{**message, "id": agent}))

    def _on_follower_lost(self, connection: AgentConnection) -> None:
        agent = self._agent_of(connection)
        if agent is None:
            return
        del self._followers[agent]
        if self._ending is not None:
            if not self._followers:
                self._close(self._ending)
        elif self._leader is not None:
            self._leader.apply(state_machine.AgentLost(agent))
            self._send_roster()

    def _agent_of(self, connection: AgentConnection) -> str | None:
        return next((agent for agent, each in self._followers.items() if each is connection), None)

    def _send_roster(self) -> None:
        if self._leader is not None:
            state = self._leader.state
            others = [peer for peer in state.present if peer.id != self._me.id]
            self._roster = (self._me, *others)
            peers = [peer._asdict() for peer in self._roster]
            self.send_to_all({"type": "roster", "peers": peers, "restarts": state.restarts})

    # --- several leaders -----------------------------------------------------------------------------------

    def _watch_endpoint(self) -> None:
        self._loop.after(_ENDPOINT_INTERVAL_S, self._watch_endpoint)
        if self._leader is not None and self._ending is None and self._attempt is None:
            self._take_endpoint()
            if self._at_endpoint is None:
                host, port = self._rendezvous.host, self._rendezvous.port
                self._attempt = sockets.ConnectAttempt(self._loop, host, port, self._on_endpoint_answer)

    def _on_endpoint_answer(self, link: socket.socket | None) -> None:
        self._attempt = None
        if link is None or self._leader is None:
            return
        connection = AgentConnection(self._loop, link, self._receive_from_endpoint, lambda _lost: None)
        address = self._me.address or connection.own_address
        generation = self._leader.state.generation
        connection.send({
            "type": "lead", "run": self._rendezvous.id, "generation": generation, "id": self._me.id,
            "host": address, "port": self._me.port,
        })  # fmt: skip
        self._loop.after(_ENDPOINT_INTERVAL_S, connection.close)

    def _on_other_leader(self, connection: AgentConnection, message: Message) -> None:
        """Settles which of two leaders stays: the one with the newer generation."""
        if message["run"] != self._rendezvous.id or message["id"] == self._me.id:
            return
        if self._leader is None:
            connection.send(self._redirection())
        elif (self._leader.state.generation, self._me.id) < (message["generation"], message["id"]):
            self._yield_to(Endpoint(message["host"], message["port"]))
        else:
            connection.send({"type": "elsewhere", "host": self._me.address, "port": self._me.port})

    def _receive_from_endpoint(self, connection: AgentConnection, message: Message) -> None:
        connection.close()
        if message["type"] == "elsewhere" and message["port"] != self._me.port and self._leader is not None:
            self._yield_to(Endpoint(str(message["host"]), int(message["port"])))

    def _yield_to(self, leader: Endpoint) -> None:
        messages.print_message(f"another agent leads this run at {leader.host}:{leader.port}: following it")
        if self._leader is not None:
            self._me = self._me._replace(generation=self._leader.state.generation)
        self.send_to_all({"type": "elsewhere", "host": leader.host, "port": leader.port})
        for connection in self._followers.values():
            connection.close()
        self._followers.clear()
        self._stop_then("another agent leads", lambda: self._search_leader([leader]))

    # --- following -------------------------------------------------------------------------------------------

    def _search_leader(self, endpoints: list[Endpoint]) -> None:
        timeout = self._rendezvous.join_timeout
        calls = self._ask_to_join, self._on_no_answer, self._give_up
        self._search = LeaderSearch(self._loop, endpoints, timeout, *calls)

    def _give_up(self) -> None:
        where, waited = f"{self._rendezvous.host}:{self._rendezvous.port}", self._rendezvous.join_timeout
        why = f"no agent leads this run at {where} after {waited:.0f} s: is its agent there?"
        self._close(state_machine.EndRun(1, why))

    def _ask_to_join(self, link: socket.socket | None) -> None:
        """Asks the agent that answers to be taken in; leads itself when it is this agent's turn (no `link`)."""
        if link is None:
            lost = self._roster[0].id if self._roster else ""
            self._take_lead(frozenset(peer.id for peer in self._roster) - {lost})
            return
        connection = AgentConnection(self._loop, link, self._receive_as_follower, self._on_leader_lost)
        if not self._options.local_addr:
            self._me = self._me._replace(address=connection.own_address)
        self._to_leader = connection
        connection.send({"type": "hello", "run": self._rendezvous.id, "peer": self._me._asdict()})

    def _on_no_answer(self) -> None:
        """Leads if this machine can have the endpoint by now; only before there was a leader."""
        if not self._roster:
            self._take_endpoint()
            if self._at_endpoint is not None:
                self._take_lead(frozenset())

    def _receive_as_follower(self, connection: AgentConnection, message: Message) -> None:
        try:
            self._obey(connection, message)
        except (KeyError, TypeError, ValueError):
            connection.lose()

    def _obey(self, connection: AgentConnection, message: Message) -> None:
        kind = message["type"]
        if kind == "roster":
            self._roster = tuple(state_machine.Peer(**peer) for peer in message["peers"])
            self._restarts = message["restarts"]
            self._end_search()
        elif kind == "start":
            membership = wire.decode(json.dumps(message["membership"]).encode())
            assert isinstance(membership, wire.Membership)  # noqa: S101 - each order to start has one
            self._me = self._me._replace(generation=membership.generation)
            start_ranks(self._ranks, membership, None, keep=message["keep"], why=message["why"])
        elif kind == "halt":
            self._ranks.halt(message["generation"], message["why"], planned=message["planned"])
        elif kind == "interrogate":
            interrogate(self._loop, self._ranks, message["rank"])
        elif kind == "close":
            connection.close()
            self._close(state_machine.EndRun(message["code"], message["why"]))
        elif kind == "refused":
            connection.close()
            self._close(state_machine.EndRun(1, message["why"]))
        elif kind in {"wait", "elsewhere"}:
            self._on_redirection(connection, message)

    def _end_search(self) -> None:
        if self._search is not None:
            self._search.cancel()
            self._search = None

    def _on_redirection(self, connection: AgentConnection, message: Message) -> None:
        connection.close()
        self._to_leader = None
        elsewhere = message["type"] == "elsewhere"
        leader = Endpoint(str(message["host"]), int(message["port"])) if elsewhere else None
        if self._search is not None:
            self._search.redirect(leader)
        elif leader is not None:  # a leader that yields to another one
            self._stop_then("another agent leads", lambda: self._search_leader([leader]))

    def _on_leader_lost(self, _connection: AgentConnection) -> None:
        self._to_leader = None
        if self._search is not None:
            self._search.redirect(None)
            return
        before_me = []
        for peer in self._roster:
            if peer.id == self._me.id:
                break
            before_me.append(Endpoint(peer.address, peer.port))
        messages.print_message("the leading agent is lost: looking for the next one")
        self._stop_then("the leading agent is lost", lambda: self._search_leader([*before_me, Endpoint.own()]))

    def _stop_then(self, why: str, call: Callable[[], None]) -> None:
        """Stops leading and stops the ranks, then calls: only an agent without ranks may join others."""
        if self._leader is not None:
            self._leader.resign()
            self._leader = None
        self._when_stopped = call
        self._ranks.halt(self._ranks.generation, why)

    # --- heartbeats of agents ----------------------------------------------------------------------------------

    def _beat(self) -> None:
        self._loop.after(self._rendezvous.interval, self._beat)
        limit = time.monotonic() - self._rendezvous.interval * self._rendezvous.attempts
        slowest = list(self._ranks.slowest_rank(time.monotonic()))
        beat: dict[str, Any] = {"type": "beat", "generation": self._ranks.generation, "behind": slowest}
        for connection in self._connections():
            connection.send(beat)
            if connection.last_received < limit:
                connection.lose()


def _address_of(host: str) -> str:
    """An address of this machine for others, given its name in the endpoint."""
    with contextlib.suppress(OSError):
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    return host
