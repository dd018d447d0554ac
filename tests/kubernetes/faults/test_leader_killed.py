"""The leader is killed repeatedly while many gangs arrive; another replica continues each time.

WINDLASS_LEADER_KILLS is the number of kills: 12 in `make test`, 50 in `make soak`.
"""

from __future__ import annotations

import asyncio
import os
import random

import pytest
from planes.fault_proxy import FaultProxy

from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.fake_pod import End

from . import jobs
from .conftest import Play
from .fault_scenario import FaultScenario

KILLS = int(os.environ.get("WINDLASS_LEADER_KILLS", "12"))
FIRST = 8
"""Number of gangs before the first kill."""
SEED = 20
LATEST = 0.3
"""Seconds from the moment a leader says so until it is killed, at most."""


@pytest.mark.timeout(180 + 5 * KILLS)
def test_all_gangs_end_although_the_leader_is_killed_at_many_moments(plane: ControlPlane, play: Play) -> None:
    async def scenario(on: FaultScenario) -> None:
        chance = random.Random(SEED)  # noqa: S311 - a moment, not a secret
        for number in range(FIRST):
            await on.make(*jobs.mixture(number, chance.uniform(0.2, 1)))
        for _ in range(2):
            await on.replicas.start()
        for kill in range(KILLS):
            leader = await on.replicas.leader()
            await asyncio.sleep(chance.uniform(0, LATEST))
            on.replicas.kill(leader)
            await on.replicas.start()
            await on.make(*jobs.mixture(FIRST + kill, chance.uniform(0.2, 1)))
        await on.until_all_ended()
        assert len(await on.phases()) == sum(number % 4 != 3 for number in range(FIRST + KILLS))
        assert len(on.replicas.dead) == KILLS

    play(plane, scenario, lease=2.0)


def test_a_leader_whose_watches_hung_continues_the_jobs(plane: ControlPlane, play: Play) -> None:
    names = [f"job-{number}" for number in range(4)]

    async def scenario(on: FaultScenario) -> None:
        async def all_run_again() -> bool:
            status = [(await on.job(name))["status"]["windlass"] for name in names]
            return all(each["phase"] == "Running" and each["generation"] == 2 for each in status)

        async with FaultProxy(on.plane) as proxy:
            await on.replicas.start()
            first = await on.replicas.leader()
            await on.make(*(jobs.training_job(name, 2) for name in names))
            await on.until_phase("Running", *names)
            second = await on.replicas.start(proxy.url)
            while not second.messages:  # noqa: ASYNC110 - that it follows
                await asyncio.sleep(0.02)
            # its watches do not see this
            proxy.mute = True
            for name in names:
                await on.kubelets.end(jobs.NAMESPACE, f"{name}-worker-1", End(code=137))
            await on.until(all_run_again, "every gang runs again")
            on.replicas.kill(first)
            await on.replicas.leader()
            proxy.mute = False
            await on.make(jobs.training_job("later", 2, 0.2))
            await on.until_phase("Succeeded", "later")
            assert await all_run_again()
            assert not any("no longer the leader" in text for text in second.messages)

    play(plane, scenario, nodes=6, lease=4.0)  # a machine with much load may renew a shorter one too late
