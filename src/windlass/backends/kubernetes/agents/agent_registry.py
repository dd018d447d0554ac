"""Identifies the agents that connect, and passes their messages to the agents of their gang (`gang_agents`).

The connections themselves are served by `agent_server`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from windlass.backends.kubernetes.agents.agent_server import PodAgentConnection
from windlass.backends.kubernetes.agents.gang_agents import BackendAccess, GangAgents
from windlass.backends.kubernetes.agents.messages import Message
from windlass.backends.kubernetes.agents.progress import stored_rank_rows
from windlass.backends.kubernetes.agents.rendezvous import Rendezvous
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.run_pods import generation_of
from windlass.backends.kubernetes.pods.agent_tokens import is_token_of


class AgentRegistry:
    """Registry of the agents that have connected during this leadership term, by the gang of their pod.

    The `MessageHandler` of the agent server. `gang_of` returns the gang of our kinds that a pod belongs to.
    """

    def __init__(self, backend: BackendAccess, gang_of: Callable[[Pod], Gang | None]) -> None:
        self._backend, self._gang_of = backend, gang_of
        self.on_invalid_message: Callable[[Exception], None] = lambda _error: None
        """Called with the error of each invalid message."""
        self._gangs: dict[str, GangAgents] = {}
        """By uid of the gang's object."""
        self._connections: dict[PodAgentConnection, tuple[Rendezvous, str]] = {}
        """The rendezvous of each identified connection, and the name of its pod."""

    def connect(self, hello: Message, connection: PodAgentConnection) -> Callable[[Message], None] | None:
        """See `agent_server.MessageHandler`."""
        if hello["type"] != "hello":
            return None
        namespace, _, name = str(hello["name"]).partition("/")
        pod = self._backend.pods.get(namespace, name)
        if pod is None or not is_token_of(pod, hello.get("token")):
            return None
        agents = self._agents_of(pod)
        if agents is None:
            return None
        rendezvous, clock = agents.rendezvous, asyncio.get_running_loop().time
        self._connections[connection] = rendezvous, name
        rendezvous.join(name, pod.spec.node_name, hello, connection, clock())
        return lambda message: rendezvous.receive(name, message, clock())

    def disconnect(self, connection: PodAgentConnection) -> None:
        """See `agent_server.MessageHandler`."""
        if (known := self._connections.pop(connection, None)) is not None:
            rendezvous, name = known
            rendezvous.agents.disconnect(name, connection)

    def refuse(self, error: Exception) -> None:
        """See `agent_server.MessageHandler`."""
        self.on_invalid_message(error)

    def check_timeouts(self) -> None:
        """See `agent_server.MessageHandler`."""
        clock = asyncio.get_running_loop().time()
        for uid, agents in list(self._gangs.items()):
            try:
                if not agents.is_current:
                    del self._gangs[uid]
                    agents.close()
                elif not agents.given_up:
                    agents.check_timeouts(clock)
            except Exception as fault:  # noqa: BLE001 - one gang's: the agents of others are led on
                agents.give_up(fault)

    def ranks_seen(self, gang: Gang) -> list[dict[str, Any]]:
        """Returns the present or last known activity of a gang's ranks (`DataSource.ranks_seen`)."""
        agents = self._gangs.get(gang.reference.uid)
        return agents.rank_rows() if agents is not None else stored_rank_rows(gang.notes.training)

    def _agents_of(self, pod: Pod) -> GangAgents | None:
        """Returns the agents of a pod's gang; None if the pod is no member of its run, or not known yet."""
        gang = self._gang_of(pod)
        run = gang.run if gang is not None else None
        if gang is None or run is None or run.stopping or generation_of(pod) != run.generation:
            return None
        if pod.metadata.name not in gang.pod_names(run):
            return None
        agents = self._gangs.get(gang.reference.uid)
        if agents is None or agents.run is not run:
            if agents is not None:
                agents.close()
            agents = self._gangs[gang.reference.uid] = GangAgents(gang, run, self._backend)
        return None if agents.given_up else agents
