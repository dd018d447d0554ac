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
from windlass.server.garbage import collect_seldom
from windlass.server.operator.election import Terms
from windlass.server.operator.faces import Faces, listen
from windlass.server.operator.history import History, Keeping
from windlass.server.operator.metrics import Metrics
from windlass.server.operator.ruling import Rule, now, reign

LEASE = "windlass-operator"
PORT = 8080
AGENTS_PORT = 8081


@dataclass(frozen=True, slots=True)
class Replica:
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
    keeping: Keeping = field(default_factory=Keeping)
    world: BackendSettings = field(default_factory=BackendSettings)


async def serve(replica: Replica, say: Callable[[str], None]) -> None:
    """Follow or lead until SIGTERM or SIGINT. Raises AccessError, ApiError, Unreachable, WorldError."""
    collect_seldom()
    say = _once(say)
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    metrics = Metrics()
    listener = listen(replica.host, replica.port)
    async with History(replica.history, now, say, replica.keeping) as history:
        faces = Faces(metrics, history)
        terms = _terms(replica, listener.getsockname()[1])
        world, agents = _agents(replica)
        rule = Rule(replica.access, terms, say, faces, metrics, world, agents)
        working = [loop.create_task(reign(rule)), loop.create_task(faces.serve(listener))]
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


def _terms(replica: Replica, port: int) -> Terms:
    identity = replica.identity or f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    address = replica.address.replace(":0", f":{port}") if replica.address.endswith(":0") else replica.address
    return Terms(replica.namespace, replica.lease_name, identity, replica.lease, address)


def _agents(replica: Replica) -> tuple[BackendSettings, tuple[str, int] | None]:
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
