"""`windlass operator run`: one replica, until it is told to end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from windlass.backends.kubernetes.client.access import Access
from windlass.backends.kubernetes.settings import BackendSettings
from windlass.server.garbage_collection import collect_rarely
from windlass.server.operator.election import LeaseSettings
from windlass.server.operator.endpoints import Endpoints, listen
from windlass.server.operator.history.store import JobHistory, Retention
from windlass.server.operator.metrics import OperatorMetrics
from windlass.server.operator.replica import ReplicaContext, epoch_ms, run_replica

LEASE = "windlass-operator"
PORT = 8080
AGENTS_PORT = 8081


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """What a replica is told at its start. `lease` in seconds; `address`: where it answers, if it is no pod."""

    access: Access
    history: str
    """Where what happened is kept when its objects are gone."""
    namespace: str = "windlass-system"
    lease_name: str = LEASE
    lease: float = 15.0
    identity: str = ""
    address: str = ""
    host: str = "0.0.0.0"  # noqa: S104 - probes and Prometheus come from outside of the pod
    port: int = PORT
    """For probes, metrics and questions; 0: any that is free."""
    agents_port: int = AGENTS_PORT
    """For agents in pods, if `world.kinds.agents` tells these where; 0: any that is free."""
    keeping: Retention = field(default_factory=Retention)
    world: BackendSettings = field(default_factory=BackendSettings)


async def run_operator(replica: OperatorOptions, say: Callable[[str], None]) -> None:
    """Follow or lead until SIGTERM or SIGINT. Raises AccessError, ApiError, Unreachable, WorldError."""
    collect_rarely()
    say = _once(say)
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    metrics = OperatorMetrics()
    listener = listen(replica.host, replica.port)
    async with JobHistory(replica.history, epoch_ms, say, replica.keeping) as history:
        faces = Endpoints(metrics, history)
        terms = _terms(replica, listener.getsockname()[1])
        world, agents = _agents(replica)
        rule = ReplicaContext(replica.access, terms, say, faces, metrics, world, agents)
        working = [loop.create_task(run_replica(rule)), loop.create_task(faces.serve(listener))]
        stopping = loop.create_task(stopped.wait())
        done, _ = await asyncio.wait([*working, stopping], return_when=asyncio.FIRST_COMPLETED)
        if stopping in done:
            say("ending; whoever follows takes over")
        for task in (*working, stopping):
            task.cancel()
        await asyncio.gather(*working, stopping, return_exceptions=True)
        for task in done - {stopping}:
            task.result()  # raises what ended it


def _once(say: Callable[[str], None]) -> Callable[[str], None]:
    """What is said again and again is said once, until something else is."""
    last = ""

    def told(text: str) -> None:
        nonlocal last
        if text != last:
            last = text
            say(text)

    return told


def _terms(replica: OperatorOptions, port: int) -> LeaseSettings:
    identity = replica.identity or f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    address = replica.address.replace(":0", f":{port}") if replica.address.endswith(":0") else replica.address
    return LeaseSettings(replica.namespace, replica.lease_name, identity, replica.lease, address)


def _agents(replica: OperatorOptions) -> tuple[BackendSettings, tuple[str, int] | None]:
    """Where agents are answered, and the settings that tell pods so."""
    kinds = replica.world.kinds
    if not kinds.agents:
        return replica.world, None
    port = replica.agents_port or _free_port(replica.host)
    host, _, said = kinds.agents.rpartition(":")
    told = replace(kinds, agents=f"{host}:{port}" if said == "0" else kinds.agents)
    return replace(replica.world, kinds=told), (replica.host, port)


def _free_port(host: str) -> int:
    with listen(host, 0) as listener:
        return int(listener.getsockname()[1])
