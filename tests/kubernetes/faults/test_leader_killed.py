"""The leader is killed again and again while a burst of gangs is taken in; another replica goes on each time."""

from __future__ import annotations

import asyncio
import random

import pytest
from controlplane.cluster import ControlPlane

from . import jobs
from .conftest import Play
from .story import Story

KILLS, FIRST = 50, 16
"""How often the leader is killed, and how many gangs there are before the first time."""
SEED = 20
LATEST = 0.3
"""Seconds from the moment a leader says so until it is killed, at most."""


@pytest.mark.timeout(400)
def test_killed_at_fifty_moments_of_a_burst(plane: ControlPlane, play: Play) -> None:
    async def tale(on: Story) -> None:
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
        assert len(await on.phases()) == (FIRST + KILLS) * 3 // 4 + 1
        assert len(on.replicas.dead) == KILLS

    play(plane, tale)
