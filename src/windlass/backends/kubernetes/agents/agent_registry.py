"""Identifies the agents that connect, and passes their messages to the agents of their gang (`gang_agents`).

The connections themselves are served by `agent_server`.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Callable
from typing import Any

from windlass.backends.kubernetes.agents.agent_server import PodAgentConnection
from windlass.backends.kubernetes.agents.gang_agents import BackendAccess, GangAgents
from windlass.backends.kubernetes.agents.messages import AgentPod, Message
from windlass.backends.kubernetes.agents.pod_tokens import TokenReviews, comes_from
from windlass.backends.kubernetes.agents.progress import stored_rank_rows
from windlass.backends.kubernetes.agents.rate_limit import RateLimitError
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.run import Run
from windlass.backends.kubernetes.gangs.run_pods import generation_of
from windlass.backends.kubernetes.settings import AgentSettings
from windlass.backends.kubernetes.status.event_correlation import EventRecord
from windlass.backends.kubernetes.status.events import AGENT_REFUSED
from windlass.backends.port import BackendError


class AgentRegistry:
    """Registry of the agents that have connected during this leadership term, by the gang of their pod.

    The `MessageHandler` of the agent server. `gang_of` returns the gang of our kinds that a pod belongs to.
    """

    def __init__(
        self,
        backend: BackendAccess,
        gang_of: Callable[[Pod], Gang | None],
        reviews: TokenReviews,
        settings: AgentSettings,
    ) -> None:
        self._backend, self._gang_of, self._reviews, self._settings = backend, gang_of, reviews, settings
        self.on_invalid_message: Callable[[Exception], None] = lambda _error: None
        """Called with the error of each invalid message."""
        self._gangs: dict[str, GangAgents] = {}
        """By uid of the gang's object."""
        self._connections: dict[PodAgentConnection, tuple[GangAgents, str]] = {}
        """The gang of each identified connection, and the name of its pod."""
        self._refused: dict[str, Run] = {}
        """The last run of each gang, by uid of the gang's object, for which an event about a refused agent exists."""

    async def connect(self, hello: Message, connection: PodAgentConnection) -> Callable[[Message], None] | None:
        """See `agent_server.MessageHandler`."""
        if hello["type"] != "hello":
            return None
        namespace, _, name = str(hello["name"]).partition("/")
        claimed = self._backend.pods.get(namespace, name)
        if claimed is None or not await self._is_proven(claimed, hello.get("token"), connection.peer_address):
            return None
        pod = self._backend.pods.get(namespace, name)  # as it is after the review
        agents = self._agents_of(pod) if pod is not None and pod.metadata.uid == claimed.metadata.uid else None
        if pod is None or agents is None:
            return None
        rendezvous, clock = agents.rendezvous, asyncio.get_running_loop().time
        self._connections[connection] = agents, name
        rendezvous.join(AgentPod(name, pod.spec.node_name, pod.status.pod_ip), hello, connection, clock())
        return lambda message: rendezvous.receive(name, message, clock())

    def disconnect(self, connection: PodAgentConnection) -> None:
        """See `agent_server.MessageHandler`."""
        if (known := self._connections.pop(connection, None)) is not None:
            agents, name = known
            agents.rendezvous.agents.disconnect(name, connection)

    def refuse(self, connection: PodAgentConnection, error: Exception) -> None:
        """See `agent_server.MessageHandler`."""
        self.on_invalid_message(error)
        if isinstance(error, RateLimitError) and (known := self._connections.get(connection)) is not None:
            agents, name = known
            self._report_refusal(agents.gang, agents.run, name, str(error))

    def check_timeouts(self) -> None:
        """See `agent_server.MessageHandler`."""
        clock = asyncio.get_running_loop().time()
        for uid, agents in list(self._gangs.items()):
            try:
                if not agents.is_current:
                    del self._gangs[uid]
                    self._refused.pop(uid, None)
                    agents.close()
                elif not agents.given_up:
                    agents.check_timeouts(clock)
            except Exception as fault:  # noqa: BLE001 - one gang's: the agents of others are led on
                agents.give_up(fault)

    def ranks_seen(self, gang: Gang) -> list[dict[str, Any]]:
        """Returns the present or last known activity of a gang's ranks (`DataSource.ranks_seen`)."""
        agents = self._gangs.get(gang.reference.uid)
        return agents.rank_rows() if agents is not None else stored_rank_rows(gang.notes.training)

    async def _is_proven(self, pod: Pod, token: object, address: str) -> bool:
        """Tells whether a connection from this address, with this token, is that of the agent of a gang's pod.

        The API server reviews only tokens that come from the address of such a pod.
        """
        found, name = self._run_of(pod), pod.metadata.name
        if found is None or not pod.status.pod_ip:  # not known yet: the agent connects again
            return False
        if not (self._settings.any_source or comes_from(pod, address)):
            self._report_refusal(*found, name, f"it comes from {address}, and the pod has {pod.status.pod_ip}")
            return False
        try:
            is_proven = await self._reviews.proves(token, pod, address)
        except BackendError:
            return False
        if not is_proven:
            self._report_refusal(*found, name, "the API server does not accept its token as one of this pod")
        return is_proven

    def _report_refusal(self, gang: Gang, run: Run, pod: str, reason: str) -> None:
        """Records an event about a connection that was refused or closed, once for each run: they may be many."""
        if self._refused.get(gang.reference.uid) is not run:
            self._refused[gang.reference.uid] = run
            note = f"a connection that names {pod} was refused: {reason}"
            self._backend.events.record(EventRecord(gang.reference, AGENT_REFUSED, "Lead", note, self._backend.now()))

    def _run_of(self, pod: Pod) -> tuple[Gang, Run] | None:
        """Returns the gang and its run that a pod is a member of; None if there is none, or it is not known yet."""
        gang = self._gang_of(pod)
        run = gang.run if gang is not None else None
        if gang is None or run is None or run.stopping or generation_of(pod) != run.generation:
            return None
        return (gang, run) if pod.metadata.name in gang.pod_names(run) else None

    def _agents_of(self, pod: Pod) -> GangAgents | None:
        """Returns the agents of a pod's gang; None if the pod is no member of its run, or they are not led."""
        found = self._run_of(pod)
        if found is None:
            return None
        gang, run = found
        agents = self._gangs.get(gang.reference.uid)
        if agents is None or agents.run is not run:
            if agents is not None:
                agents.close()
            secret = gang_secret(self._settings.secret_key, gang.reference.uid, run.generation)
            agents = self._gangs[gang.reference.uid] = GangAgents(gang, run, self._backend, secret)
        return None if agents.given_up else agents


def gang_secret(key: bytes, uid: str, generation: int) -> str:
    """The secret of one generation of a gang. Every leader derives the same, so that it need not be stored."""
    return hmac.new(key, f"gang {uid} {generation}".encode(), hashlib.sha256).hexdigest()
