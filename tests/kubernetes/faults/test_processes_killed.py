"""Real operators, killed with SIGKILL while they lead."""

from __future__ import annotations

import asyncio
import random

import pytest

from windlass.controlplane.cluster import ControlPlane

from . import jobs
from .conftest import Play
from .fault_scenario import FaultScenario
from .operator_processes import OperatorProcesses

KILLS, GANGS = 3, 5
SEED = 20


@pytest.mark.timeout(240)
def test_another_process_leads_after_each_kill_of_the_leader(plane: ControlPlane, play: Play) -> None:
    async def scenario(on: FaultScenario) -> None:
        chance = random.Random(SEED)  # noqa: S311 - a moment, not a secret
        for _ in range(2):
            await on.replicas.start()
        for kill in range(KILLS):
            leader = await on.replicas.leader()
            for number in range(GANGS):
                await on.make(*jobs.mixture(kill * GANGS + number, chance.uniform(0.2, 1)))
            await asyncio.sleep(chance.uniform(0, 1))
            on.replicas.kill(leader)
            await on.replicas.start()
        await on.until_all_ended()
        assert len(on.replicas.dead) == KILLS

    play(plane, scenario, lease=2.0, operators=OperatorProcesses)
