"""`windlass operator run`: one replica, until it is told to end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from windlass.controller import Controller
from windlass.server.feed import Feed
from windlass.server.operator.election import Terms
from windlass.server.operator.ruling import Rule, reign
from windlass.worlds.kubernetes.client.access import Access
from windlass.worlds.kubernetes.settings import WorldSettings
from windlass.worlds.kubernetes.world import KubernetesWorld


@dataclass(frozen=True, slots=True)
class Replica:
    """What a replica is told at its start. `lease` in seconds; `address`: where it answers, if it is no pod."""

    access: Access
    namespace: str = "windlass-system"
    lease_name: str = "windlass"
    lease: float = 15.0
    identity: str = ""
    address: str = ""
    world: WorldSettings = field(default_factory=WorldSettings)


async def serve(replica: Replica, say: Callable[[str], None]) -> None:
    """Follow or lead until SIGTERM or SIGINT. Raises AccessError, ApiError, Unreachable."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    identity = replica.identity or f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    terms = Terms(replica.namespace, replica.lease_name, identity, replica.lease, replica.address)
    reigning = loop.create_task(reign(Rule(replica.access, terms, say, replica.world), _lead))
    stopping = loop.create_task(stopped.wait())
    await asyncio.wait([reigning, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not reigning.done():
        say("ending; whoever follows takes over")
    reigning.cancel()
    await asyncio.gather(reigning, return_exceptions=stopped.is_set())


async def _lead(_controller: Controller, _world: KubernetesWorld, _feed: Feed) -> None:
    await asyncio.Event().wait()
