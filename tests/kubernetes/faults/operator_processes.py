"""Operator processes, each behind its own TCP proxy: the same faults as for replicas in this process, and SIGKILL."""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from pathlib import Path

from operator_account import LEASE, NAMESPACE, operator_kubeconfig

import strays
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.processes import Server
from windlass.controlplane.tcp_proxy import TcpProxy

from .replicas import leads_by_messages

WINDLASS = Path(sys.executable).with_name("windlass")


class OperatorProcess:
    """`windlass operator run` as a process."""

    def __init__(self, plane: ControlPlane, folder: Path, name: str, lease: float, url: str) -> None:
        self.name = name
        self.proxy = TcpProxy(url or plane.url)
        self._plane, self._folder, self._lease = plane, folder, lease
        self.server: Server

    async def start(self) -> None:
        await self.proxy.__aenter__()
        access = operator_kubeconfig(self._plane, self.proxy.url)
        command = [
            *(WINDLASS, "operator", "run", "--kubeconfig", access, "--namespace", NAMESPACE),
            *("--lease", LEASE, "--lease-seconds", f"{self._lease:g}"),
            *("--history", f"sqlite://{self._folder}/{self.name}.db"),
            *("--metrics-port", "0", "--metrics-host", "127.0.0.1", "--address", "http://127.0.0.1:0"),
        ]
        self.server = Server(self.name, command, self._folder / f"{self.name}.log")
        self.server.start()

    @property
    def messages(self) -> list[str]:
        return self.server.log.read_text().splitlines()

    @property
    def leads(self) -> bool:
        """Whether it leads, by its last message about it."""
        return leads_by_messages(self.messages)

    @property
    def pid(self) -> int:
        assert self.server.process is not None
        return self.server.process.pid

    def kill(self) -> None:
        """Sends SIGKILL."""
        self.server.kill()

    async def close(self) -> None:
        await self.proxy.__aexit__(None, None, None)


class OperatorProcesses:
    """All operator processes of a test; those that still run are killed with the test."""

    def __init__(self, plane: ControlPlane, folder: Path, lease: float) -> None:
        self._plane, self._folder, self._lease = plane, folder, lease
        self._numbers = itertools.count(1)
        self.living: list[OperatorProcess] = []
        self.dead: list[OperatorProcess] = []

    async def start(self, url: str = "") -> OperatorProcess:
        made = OperatorProcess(self._plane, self._folder, f"operator-{next(self._numbers)}", self._lease, url)
        await made.start()
        self.living.append(made)
        return made

    async def leader(self) -> OperatorProcess:
        """Waits until one of them leads."""
        deadline = time.monotonic() + 4 * strays.TIMEOUT_S
        while not (leading := [each for each in self.living if each.leads]):
            for each in self.living:
                each.server.check_running()
            assert time.monotonic() < deadline, [each.messages[-3:] for each in self.living]
            await asyncio.sleep(0.1)
        return leading[-1]

    def kill(self, operator: OperatorProcess) -> None:
        operator.kill()
        self.living.remove(operator)
        self.dead.append(operator)

    async def close(self) -> None:
        for each in self.living:
            each.kill()
        await asyncio.gather(*(each.close() for each in (*self.living, *self.dead)))

    def errors(self) -> list[str]:
        """Lines about errors of the program."""
        lines = [line for each in (*self.living, *self.dead) for line in each.messages]
        return [line for line in lines if "Traceback" in line or "nothing foresees" in line]
