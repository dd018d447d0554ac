"""An API server that says no, says later, or does as it was told and does not say so."""

from __future__ import annotations

import pytest
from controlplane.cluster import ControlPlane
from controlplane.fault_proxy import FaultProxy, Rule

from . import jobs
from .conftest import Play
from .story import Story

GANGS = 16
NOT_THE_LEASE = "^(?!.*/leases)"
LATER = [Rule(429, path=NOT_THE_LEASE, retry_after=1, chance=0.1), Rule(429, path=NOT_THE_LEASE, chance=0.1)]
CONFLICTS = [Rule(409, "PATCH", "/status", chance=0.3), Rule(409, "POST", "/pods$", chance=0.1)]
"""The second is what a ResourceQuota answers that is just being counted."""
UNHEARD = [Rule(0, path=NOT_THE_LEASE, chance=0.05), Rule(0, path=NOT_THE_LEASE, chance=0.05, performed=True)]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("rules", [LATER, CONFLICTS, UNHEARD], ids=["429", "409", "no answer"])
def test_refused_at_random(plane: ControlPlane, play: Play, rules: list[Rule]) -> None:
    async def tale(on: Story) -> None:
        async with FaultProxy(on.plane, given := list(rules), seed=7) as proxy:
            await on.replicas.start(proxy.url)
            await on.replicas.leader()
            for number in range(GANGS):
                await on.make(*jobs.mixture(number, 0.3))
            await on.until_all_ended(patience=150)
            assert all(rule.met for rule in rules)
            given.clear()
            await on.is_true()

    play(plane, tale, lease=4.0)
