"""Real operators, killed with SIGKILL while they lead."""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from controlplane.cluster import ControlPlane
from controlplane.processes import Server

from . import jobs
from .conftest import Play
from .fault_scenario import LEASES, FaultScenario

WINDLASS = Path(sys.executable).with_name("windlass")
LEASE = "faults-of-processes"
KILLS, GANGS = 3, 12
SEED = 20


class Operators:
    """Operator processes by their ids; the Lease names that of the leader."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._plane, self._folder = plane, folder
        self._numbers = itertools.count(1)
        self.started: list[Server] = []

    def start(self) -> None:
        number = next(self._numbers)
        history = f"sqlite://{self._folder}/history-{number}.db"
        command = [
            *(WINDLASS, "operator", "run", "--kubeconfig", self._plane.kubeconfig, "--namespace", "default"),
            *("--lease", LEASE, "--lease-seconds", "2", "--history", history),
            *("--metrics-port", "0", "--metrics-host", "127.0.0.1", "--address", "http://127.0.0.1:0"),
        ]
        server = Server(f"operator-{number}", command, self._folder / f"operator-{number}.log")
        server.start()
        self.started.append(server)

    def messages(self) -> str:
        return "".join(each.log.read_text() for each in self.started)


@contextmanager
def operators(plane: ControlPlane, folder: Path) -> Iterator[Operators]:
    made = Operators(plane, folder)
    try:
        yield made
    finally:
        for each in made.started:
            each.kill()


@pytest.mark.timeout(240)
def test_another_process_leads_after_each_kill_of_the_leader(plane: ControlPlane, play: Play, tmp_path: Path) -> None:
    async def scenario(on: FaultScenario, processes: Operators) -> None:
        chance = random.Random(SEED)  # noqa: S311 - a moment, not a secret
        for _ in range(2):
            processes.start()
        for kill in range(KILLS):
            leader = await led_by_another(on, processes)
            for number in range(GANGS):
                await on.make(*jobs.mixture(kill * GANGS + number, chance.uniform(0.2, 1)))
            await asyncio.sleep(chance.uniform(0, 1))
            leader.kill()
            processes.start()
        await on.until_all_ended()
        assert "Traceback" not in processes.messages()
        await on.api.delete(f"{LEASES}/{LEASE}")

    with operators(plane, tmp_path) as processes:
        play(plane, lambda on: scenario(on, processes))


async def led_by_another(on: FaultScenario, processes: Operators) -> Server:
    """Waits until a live process leads."""
    found: list[Server] = []

    async def condition() -> bool:
        holder = (await on.api.get(f"{LEASES}/{LEASE}"))["spec"]["holderIdentity"]
        found[:] = [each for each in processes.started if each.process and f"_{each.process.pid}_" in holder]
        return bool(found)

    await on.until(condition, "a leader")
    return found[0]
