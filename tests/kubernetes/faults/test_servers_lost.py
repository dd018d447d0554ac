"""The API server or etcd is killed while many gangs arrive, or every connection ends repeatedly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.processes import Server

from . import jobs
from .conftest import Play
from .fault_scenario import FaultScenario

GANGS = 8


def apiserver(plane: ControlPlane) -> Server:
    return plane.apiserver


def etcd(plane: ControlPlane) -> Server:
    return plane.etcd


@pytest.mark.apiserver
@pytest.mark.parametrize("server_of", [apiserver, etcd])
def test_all_jobs_end_although_a_server_is_killed(
    fragile: ControlPlane, play: Play, server_of: Callable[[ControlPlane], Server]
) -> None:
    server = server_of(fragile)

    async def scenario(on: FaultScenario) -> None:
        for _ in range(2):
            await on.replicas.start()
        await on.replicas.leader()
        for number in range(GANGS):
            await on.make(*jobs.mixture(number, 0.5))
        before = on.witness.bound
        server.kill()
        await on.plane.restart(server)
        for number in range(GANGS, GANGS + 4):
            await on.make(*jobs.mixture(number, 0.2))
        await on.until_all_ended()
        assert on.witness.bound > before

    play(fragile, scenario)


def test_all_jobs_end_although_every_connection_is_cut_each_second(plane: ControlPlane, play: Play) -> None:
    """Watches and requests in flight end without notice: no action is repeated."""

    async def scenario(on: FaultScenario) -> None:
        only = await on.replicas.start()
        await on.replicas.leader()

        async def cut() -> None:
            while True:
                await asyncio.sleep(1)
                only.proxy.cut()

        cutting = asyncio.create_task(cut())
        for number in range(2 * GANGS):
            await on.make(*jobs.mixture(number, 0.5))
        await on.until_all_ended()
        cutting.cancel()
        await asyncio.gather(cutting, return_exceptions=True)

    play(plane, scenario, lease=4.0)
