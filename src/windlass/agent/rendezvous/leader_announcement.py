"""Announces a leading agent at the rendezvous endpoint, so that new agents find it and two leaders become one."""

from __future__ import annotations

import socket
from typing import Callable

from windlass.agent.event_loop import EventLoop
from windlass.agent.options import RendezvousOptions
from windlass.agent.rendezvous.address_lookup import AddressLookup, SocketAddress
from windlass.agent.rendezvous.authentication import Authentication
from windlass.agent.rendezvous.connection import AgentConnection, Message
from windlass.agent.rendezvous.endpoint import RendezvousEndpoint
from windlass.agent.rendezvous.leader_search import Endpoint
from windlass.agent.rendezvous.leader_server import LeaderServer
from windlass.agent.rendezvous.roster import Roster
from windlass.agent.rendezvous.sockets import ConnectAttempt

_INTERVAL_S = 2.0


class LeaderAnnouncement:
    """The timer of announcements: every two seconds, while this agent leads, it listens at the endpoint or announces.

    An announcement goes to the agent that listens at the endpoint.

    Calls `follow` with the endpoint of another leader that the answer names.
    """

    def __init__(
        self,
        loop: EventLoop,
        rendezvous: RendezvousOptions,
        endpoint: RendezvousEndpoint,
        server: LeaderServer,
        roster: Roster,
        follow: Callable[[Endpoint], None],
    ) -> None:
        self._loop, self._rendezvous, self._endpoint = loop, rendezvous, endpoint
        self._server, self._roster, self._follow_leader = server, roster, follow
        self._attempt: AddressLookup | ConnectAttempt | None = None
        loop.after(_INTERVAL_S, self._announce)

    def _announce(self) -> None:
        self._loop.after(_INTERVAL_S, self._announce)
        if self._server.is_leading and self._attempt is None and not self._endpoint.is_listening:
            host, port = self._rendezvous.host, self._rendezvous.port
            self._attempt = AddressLookup(self._loop, host, port, self._on_address)

    def _on_address(self, found: SocketAddress | None) -> None:
        self._attempt = None
        if found is not None and self._server.is_leading and not self._endpoint.listen(found.address[0]):
            self._attempt = ConnectAttempt(self._loop, found.address[0], self._rendezvous.port, self._on_answer)

    def _on_answer(self, link: socket.socket | None) -> None:
        self._attempt = None
        if link is None:
            return
        authentication = Authentication(self._rendezvous.secret, accepts=False)
        connection = AgentConnection(self._loop, link, self._receive, lambda _lost: None, authentication)
        if self._server.is_leading:
            connection.send(self._server.announcement(connection.own_address))
        self._loop.after(_INTERVAL_S, connection.close)

    def _receive(self, connection: AgentConnection, message: Message) -> None:
        connection.close()
        is_elsewhere = message["type"] == "elsewhere" and message["port"] != self._roster.me.port
        if is_elsewhere and self._server.is_leading:
            self._follow_leader(Endpoint(str(message["host"]), int(message["port"])))
