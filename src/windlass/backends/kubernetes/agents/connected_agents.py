"""The agents of one rendezvous: their connections and the last reports of each.

`rendezvous` decides with them, `hang_monitor` and `progress` read their reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from windlass import wire
from windlass.agent.hang_detection import SlowestRank
from windlass.agent.rendezvous import state_machine as rules
from windlass.backends.kubernetes.agents import messages
from windlass.backends.kubernetes.agents.messages import Message


class MessageChannel(Protocol):
    """The connection to one agent (`agent_server.PodAgentConnection`)."""

    def send(self, message: Message) -> None:
        """Sends without blocking."""

    def close(self) -> None:
        """Closes the connection."""


@dataclass(slots=True)
class PodAgent:
    """The agent of one pod. `instance` changes when its container is restarted."""

    peer: rules.Peer
    instance: str
    channel: MessageChannel | None = None
    """None while it is not connected."""
    slowest: SlowestRank | None = None
    """Its slowest rank, as last reported on this connection."""
    silence: float = 0.0
    """Seconds without output after which its ranks are said to hang; 0 for no limit (`HangLimits.silence`)."""
    telemetry: wire.Telemetry | None = None
    recovery: wire.RankRecovery | None = None
    """The last time at which its ranks ran again."""

    def record_heartbeat(self, message: Message, generation: int) -> None:
        """Records the message `beat`. Raises ValueError, KeyError, TypeError for invalid input."""
        self.silence, slowest = (
            messages.parse_seconds(message["silence"]),
            messages.parse_slowest_rank(message["behind"]),
        )
        self.slowest = slowest if message["generation"] == generation else None  # a report of an old one is ignored
        self.telemetry = messages.parse_telemetry(message.get("measured"))
        self.recovery = messages.parse_recovery(message.get("recovered"))


class ConnectedAgents:
    """Agents by the name of their pod, connected now or before."""

    def __init__(self) -> None:
        self._agents: dict[str, PodAgent] = {}

    def __iter__(self) -> Iterator[PodAgent]:
        return iter(self._agents.values())

    def __getitem__(self, name: str) -> PodAgent:
        return self._agents[name]

    def get(self, name: str) -> PodAgent | None:
        """Returns the agent of a pod."""
        return self._agents.get(name)

    def connect(self, name: str, agent: PodAgent) -> bool:
        """Adds an agent that connects. Returns whether the same instance was connected before."""
        before = self._agents.get(name)
        if before is not None and before.channel is not None:
            before.channel.close()
        self._agents[name] = agent
        self.send(name, {"type": "welcome"})
        if before is None or before.instance != agent.instance:
            return False
        agent.telemetry = before.telemetry
        return True

    def disconnect(self, name: str, channel: MessageChannel) -> None:
        """Records the end of a connection, unless the agent has connected again since."""
        agent = self._agents.get(name)
        if agent is not None and agent.channel is channel:
            agent.channel, agent.slowest = None, None

    def close(self) -> None:
        """Closes all connections and forgets the agents."""
        for agent in self._agents.values():
            if agent.channel is not None:
                agent.channel.close()
        self._agents.clear()

    def connected(self) -> set[str]:
        """Returns the pods whose agents are connected."""
        return {name for name, agent in self._agents.items() if agent.channel is not None}

    def telemetry(self, generation: int) -> wire.Telemetry | None:
        """Returns the last metrics of the first rank that reports any in this generation."""
        reports = (agent.telemetry for agent in self if agent.telemetry is not None)
        current = [report for report in reports if report.generation == generation]
        return min(current, key=lambda report: report.rank, default=None)

    def send(self, name: str, message: Message) -> None:
        """Sends a message to the agent of a pod, if it is connected."""
        agent = self._agents.get(name)
        if agent is not None and agent.channel is not None:
            agent.channel.send(message)

    def send_to_all(self, message: Message) -> None:
        """Sends a message to every connected agent."""
        for name in list(self._agents):
            self.send(name, message)
