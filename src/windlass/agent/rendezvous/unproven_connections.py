"""Bounds the number of accepted connections whose other side has not proved the secret (`connection`: their time)."""

from __future__ import annotations

from windlass.agent.rendezvous.connection import AgentConnection

_MAX_CONNECTIONS = 64


class UnprovenConnections:
    """Accepted connections in the order of arrival, until they are proven or closed."""

    def __init__(self) -> None:
        self._connections: list[AgentConnection] = []

    def add(self, connection: AgentConnection) -> None:
        """Adds a connection; closes the oldest one where there are too many."""
        self._connections = [each for each in self._connections if each.is_open and not each.is_peer_proven]
        self._connections.append(connection)
        if len(self._connections) > _MAX_CONNECTIONS:
            self._connections.pop(0).lose()
