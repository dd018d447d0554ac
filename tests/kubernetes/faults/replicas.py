"""Operators in this process, each behind a wire of its own, so that they can be killed at any instant."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from pathlib import Path

from controlplane.cluster import ControlPlane
from controlplane.tcp_proxy import TcpProxy
from kubernetes_host import cancel_task

import strays
from windlass.backends.kubernetes.client.identity import constant_access
from windlass.backends.kubernetes.settings import BackendSettings
from windlass.server.operator.election import LeaseSettings
from windlass.server.operator.endpoints import Endpoints
from windlass.server.operator.history.store import JobHistory
from windlass.server.operator.metrics import OperatorMetrics
from windlass.server.operator.replica import ReplicaContext, run_replica

LEASE = "faults"
_OF_THE_PROGRAM = re.compile(r"(?!ApiError)[A-Z]\w*(Error|Exception|Group): |.*Traceback")
"""What the world says of an exception that nobody has foreseen begins with its name."""


class Replica:
    """Follows or leads. `said` is all it said."""

    def __init__(self, plane: ControlPlane, name: str, folder: Path, lease: float, url: str) -> None:
        self.name = name
        self.said: list[str] = []
        self.wire = TcpProxy(url or plane.url)
        self._plane, self._folder, self._lease = plane, folder, lease
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.wire.__aenter__()
        self.task = asyncio.create_task(self._reign())

    async def _reign(self) -> None:
        metrics = OperatorMetrics()
        access = constant_access(self.wire.url, tls=self._plane.admin.ssl())
        async with JobHistory(f"sqlite://{self._folder}/{self.name}.db", now, self.said.append) as history:
            terms = LeaseSettings("default", LEASE, self.name, self._lease)
            world = BackendSettings(image_pull_timeout=0)
            await run_replica(
                ReplicaContext(access, terms, self.said.append, Endpoints(metrics, history), metrics, world)
            )

    @property
    def leads(self) -> bool:
        """By what it said last of it."""
        words = [each for each in self.said if each.startswith(("leading", "no longer", "following"))]
        return bool(words) and words[-1].startswith("leading")

    def kill(self) -> None:
        """As SIGKILL looks from outside: from this instant on nothing leaves it, and nobody is told."""
        assert self.task is not None
        self.wire.refuses = True
        self.wire.cut()
        self.task.cancel()

    async def close(self) -> None:
        assert self.task is not None
        await cancel_task(self.task)
        await self.wire.__aexit__(None, None, None)


class Replicas:
    """Started, killed, and all ended in the end."""

    def __init__(self, plane: ControlPlane, folder: Path, lease: float = 1.0) -> None:
        self._plane, self._folder, self._lease = plane, folder, lease
        self._numbers = itertools.count(1)
        self.living: list[Replica] = []
        self.dead: list[Replica] = []

    async def start(self, url: str = "") -> Replica:
        made = Replica(self._plane, f"replica-{next(self._numbers)}", self._folder, self._lease, url)
        await made.start()
        self.living.append(made)
        return made

    async def leader(self) -> Replica:
        """Wait until one of them leads."""
        give_up = time.monotonic() + 2 * strays.TIMEOUT_S
        while not (leading := [each for each in self.living if each.leads]):
            for each in self.living:
                assert each.task is not None
                if each.task.done():
                    each.task.result()
            assert time.monotonic() < give_up, [each.said[-3:] for each in self.living]
            await asyncio.sleep(0.01)
        return leading[-1]

    def kill(self, replica: Replica) -> None:
        replica.kill()
        self.living.remove(replica)
        self.dead.append(replica)

    async def close(self) -> None:
        for each in self.living:
            each.kill()
        await asyncio.gather(*(each.close() for each in (*self.living, *self.dead)))

    def troubles(self) -> list[str]:
        """What was said that speaks of an error in the program, not of the cluster."""
        said = [text for each in (*self.living, *self.dead) for text in each.said]
        return [text for text in said if _OF_THE_PROGRAM.match(text)]


def now() -> int:
    return time.time_ns() // 1_000_000
