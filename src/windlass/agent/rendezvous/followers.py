"""Keeps the connections of a leading agent to the agents that follow it, and their newest heartbeats.

`leader_server` accepts followers; `leader` sends its orders through this module.
"""

from __future__ import annotations

from windlass.agent.hang_detection import SlowestRank
from windlass.agent.rendezvous.connection import AgentConnection, Message, encode_message


class FollowerConnections:
    """One connection for each follower, by the id of its agent."""

    def __init__(self) -> None:
        self._by_agent: dict[str, AgentConnection] = {}
        self._agents: dict[AgentConnection, str] = {}
        """The inverse: each of them sends a heartbeat every second."""
        self._slowest: dict[str, tuple[int, SlowestRank]] = {}
        """Generation and slowest rank of each follower, by its id."""

    @property
    def connections(self) -> list[AgentConnection]:
        """All connections; empty if no agent follows."""
        return list(self._by_agent.values())

    def add(self, agent: str, connection: AgentConnection) -> None:
        """Adds a follower; closes its earlier connection, if it has one."""
        before = self._by_agent.pop(agent, None)
        self._by_agent[agent] = connection
        self._agents[connection] = agent
        if before is not None:
            del self._agents[before]
            before.close()

    def find(self, connection: AgentConnection) -> str | None:
        """Id of the follower with this connection; None if it is no follower's current one."""
        return self._agents.get(connection)

    def remove(self, agent: str) -> None:
        """Removes a follower whose connection is lost."""
        del self._agents[self._by_agent.pop(agent)]

    def close_all(self) -> None:
        """Closes all connections and removes their followers."""
        for connection in self._by_agent.values():
            connection.close()
        self._by_agent.clear()
        self._agents.clear()

    def record_heartbeat(self, agent: str, generation: int, slowest: SlowestRank) -> None:
        """Records the newest heartbeat of a follower."""
        self._slowest[agent] = generation, slowest

    # --- leader.Followers -----------------------------------------------------------------------------------

    def send(self, agent: str, message: Message) -> None:
        """Sends to one follower; does nothing if it is lost."""
        if agent in self._by_agent:
            self._by_agent[agent].send(message)

    def send_to_all(self, message: Message) -> None:
        """Sends to every follower."""
        body = encode_message(message)
        for connection in self.connections:
            connection.send_encoded(body)

    def slowest_ranks(self, generation: int) -> list[SlowestRank]:
        """The newest reports of followers on this generation; reports on older ones are left out."""
        reports = [report for agent, report in self._slowest.items() if agent in self._by_agent]
        return [slowest for reported, slowest in reports if reported == generation]
