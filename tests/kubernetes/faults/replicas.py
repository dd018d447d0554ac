"""Operators in this process, each behind its own TCP proxy, so that they can be killed at any time."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import Sequence
from pathlib import Path

from kubernetes_host import cancel_task
from operator_account import LEASE, NAMESPACE, operator_access

import strays
from windlass.backends.kubernetes.settings import BackendSettings
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.tcp_proxy import TcpProxy
from windlass.server.operator.election import LeaseSettings
from windlass.server.operator.endpoints import Endpoints
from windlass.server.operator.history.store import JobHistory
from windlass.server.operator.metrics import OperatorMetrics
from windlass.server.operator.replica import ReplicaContext, run_replica

_OF_THE_PROGRAM = re.compile(r"(?!ApiError)[A-Z]\w*(Error|Exception|Group): |.*Traceback")
"""Messages about unexpected exceptions begin with the name of the exception."""


class Replica:
    """One replica of the operator. `messages`: all that it printed."""

    def __init__(self, plane: ControlPlane, name: str, folder: Path, lease: float, url: str) -> None:
        self.name = name
        self.messages: list[str] = []
        self.proxy = TcpProxy(url or plane.url)
        self._plane, self._folder, self._lease = plane, folder, lease
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.proxy.__aenter__()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        metrics = OperatorMetrics()
        access = operator_access(self._plane, self.proxy.url)
        async with JobHistory(f"sqlite://{self._folder}/{self.name}.db", now, self.messages.append) as history:
            terms = LeaseSettings(NAMESPACE, LEASE, self.name, self._lease)
            settings = BackendSettings(image_pull_timeout=0)
            await run_replica(
                ReplicaContext(access, terms, self.messages.append, Endpoints(metrics, history), metrics, settings)
            )

    @property
    def leads(self) -> bool:
        """Whether it leads, by its last message about it."""
        return leads_by_messages(self.messages)

    def kill(self) -> None:
        """Cuts all its connections without notice, as SIGKILL appears from outside."""
        assert self.task is not None
        self.proxy.refuses = True
        self.proxy.cut()
        self.task.cancel()

    async def close(self) -> None:
        assert self.task is not None
        await cancel_task(self.task)
        await self.proxy.__aexit__(None, None, None)


class Replicas:
    """All replicas of a test; those that still run are ended with the test."""

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
        """Waits until one of them leads."""
        deadline = time.monotonic() + 2 * strays.TIMEOUT_S
        while not (leading := [each for each in self.living if each.leads]):
            for each in self.living:
                assert each.task is not None
                if each.task.done():
                    each.task.result()
            assert time.monotonic() < deadline, [each.messages[-3:] for each in self.living]
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

    def errors(self) -> list[str]:
        """Messages about errors of the program, not of the cluster."""
        all_messages = [text for each in (*self.living, *self.dead) for text in each.messages]
        return [text for text in all_messages if _OF_THE_PROGRAM.match(text)]


def leads_by_messages(messages: Sequence[str]) -> bool:
    """Whether an operator leads, by its last message about it."""
    words = [each for each in messages if each.startswith(("leading", "no longer", "following"))]
    return bool(words) and words[-1].startswith("leading")


def now() -> int:
    return time.time_ns() // 1_000_000
