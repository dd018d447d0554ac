"""Bounds the accepted connections whose other side has not proved the secret: their number and their time."""

from __future__ import annotations

from windlass.agent.event_loop import EventLoop
from windlass.agent.rendezvous.connection import AgentConnection

_MAX_STRANGERS = 64
"""Connections beside those of the agents of the run, which may all come at once."""
_PROOF_TIMEOUT_S = 5.0


class UnprovenConnections:
    """Accepted connections in the order of arrival, until they are proven or closed."""

    def __init__(self, loop: EventLoop, max_agents: int) -> None:
        self._loop, self._limit = loop, _MAX_STRANGERS + max_agents
        self._connections: list[AgentConnection] = []

    def add(self, connection: AgentConnection) -> None:
        """Adds a connection; closes the oldest one where there are too many."""
        self._connections = [each for each in self._connections if each.is_open and not each.is_peer_proven]
        self._connections.append(connection)
        if len(self._connections) > self._limit:
            self._connections.pop(0).lose()
        self._loop.after(_PROOF_TIMEOUT_S, lambda: None if connection.is_peer_proven else connection.lose())
