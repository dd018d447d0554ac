"""A leader that can no longer be reached, and lives: it stops writing before anybody else begins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from controlplane.cluster import ControlPlane

from . import jobs
from .conftest import Play
from .replicas import Replica
from .story import Story

GANGS = 12


def refuses(leader: Replica) -> None:
    """Its connections break, and no new one is made."""
    leader.wire.refuses = True
    leader.wire.cut()


def swallows(leader: Replica) -> None:
    """Nothing comes through, and nobody is told."""
    leader.wire.drops = True


def drags(leader: Replica) -> None:
    """What it has sent arrives when another one leads."""
    leader.wire.delay = 2.5


def heal(leader: Replica) -> None:
    leader.wire.refuses = leader.wire.drops = False
    leader.wire.delay = 0
    leader.wire.cut()  # what was swallowed is missing for ever


@pytest.mark.parametrize("cut_off", [refuses, swallows, drags])
def test_nothing_is_bound_twice_when_the_leader_is_cut_off(
    plane: ControlPlane, play: Play, cut_off: Callable[[Replica], None]
) -> None:
    async def tale(on: Story) -> None:
        await on.replicas.start()
        old = await on.replicas.leader()
        await on.replicas.start()
        for number in range(GANGS):
            await on.make(*jobs.mixture(number, 0.5))
        await asyncio.sleep(0.1)  # somewhere in the middle
        cut_off(old)

        async def another_leads() -> bool:
            return any(each.leads for each in on.replicas.living if each is not old)

        await on.until(another_leads, "another leader")
        await on.make(*jobs.mixture(GANGS, 0.2))
        await asyncio.sleep(1)
        heal(old)
        await on.until_all_ended()

        async def follows() -> bool:
            return not old.leads

        await on.until(follows, "the old leader's insight")

    play(plane, tale)
