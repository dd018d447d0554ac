"""The API server or its store is killed in the middle of a burst, or every watch ends again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from controlplane.cluster import ControlPlane
from controlplane.processes import Server

from . import jobs
from .conftest import Play
from .story import Story

GANGS = 12


def apiserver(plane: ControlPlane) -> Server:
    return plane.apiserver


def etcd(plane: ControlPlane) -> Server:
    return plane.etcd


@pytest.mark.apiserver
@pytest.mark.parametrize("server_of", [apiserver, etcd])
def test_a_server_is_killed_and_comes_back(
    fragile: ControlPlane, play: Play, server_of: Callable[[ControlPlane], Server]
) -> None:
    server = server_of(fragile)

    async def tale(on: Story) -> None:
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

    play(fragile, tale)


def test_every_connection_is_cut_each_second(plane: ControlPlane, play: Play) -> None:
    """Watches, and whatever is under way, end without a word: what was done is not done twice."""

    async def tale(on: Story) -> None:
        only = await on.replicas.start()
        await on.replicas.leader()

        async def cut() -> None:
            while True:
                await asyncio.sleep(1)
                only.wire.cut()

        cutting = asyncio.create_task(cut())
        for number in range(2 * GANGS):
            await on.make(*jobs.mixture(number, 0.5))
        await on.until_all_ended()
        cutting.cancel()
        await asyncio.gather(cutting, return_exceptions=True)

    play(plane, tale, lease=4.0)
