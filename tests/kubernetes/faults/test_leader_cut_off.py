"""A live leader without a connection: it stops writing before another replica leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from windlass.controlplane.cluster import ControlPlane

from . import jobs
from .conftest import Play
from .fault_scenario import FaultScenario
from .replicas import Replica

GANGS = 8


def refuses(leader: Replica) -> None:
    """Breaks its connections and refuses new ones."""
    leader.proxy.refuses = True
    leader.proxy.cut()


def drops_data(leader: Replica) -> None:
    """Drops all data without closing connections."""
    leader.proxy.drops = True


def delays(leader: Replica) -> None:
    """Delays its requests until another replica leads."""
    leader.proxy.delay = 2.5


def heal(leader: Replica) -> None:
    leader.proxy.refuses = leader.proxy.drops = False
    leader.proxy.delay = 0
    leader.proxy.cut()  # dropped data is lost


@pytest.mark.parametrize("cut_off", [refuses, drops_data, delays])
def test_no_pod_is_bound_twice_when_the_leader_is_cut_off(
    plane: ControlPlane, play: Play, cut_off: Callable[[Replica], None]
) -> None:
    async def scenario(on: FaultScenario) -> None:
        await on.replicas.start()
        old = await on.replicas.leader()
        await on.replicas.start()
        for number in range(GANGS):
            await on.make(*jobs.mixture(number, 0.5))
        await asyncio.sleep(0.1)  # during the writes
        cut_off(old)

        async def another_leads() -> bool:
            return any(each.leads for each in on.replicas.living if each is not old)

        await on.until(another_leads, "another leader")
        await on.make(*jobs.mixture(GANGS, 0.2))
        await asyncio.sleep(1)
        heal(old)
        await on.until_all_ended()

        async def stopped_leading() -> bool:
            return any(text.startswith("no longer the leader") for text in old.messages)

        # under load it may lead again later, when its successor loses the Lease in turn
        await on.until(stopped_leading, "the old leader noticing its loss")

    play(plane, scenario)
