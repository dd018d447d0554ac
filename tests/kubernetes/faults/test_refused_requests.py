"""An API server that refuses requests, delays them, or carries them out without a reply."""

from __future__ import annotations

import pytest
from planes.fault_proxy import FaultProxy, Rule

from windlass.controlplane.cluster import ControlPlane

from . import jobs
from .conftest import Play
from .fault_scenario import FaultScenario

GANGS = 9
NOT_THE_LEASE = "^(?!.*/leases)"
LATER = [Rule(429, path=NOT_THE_LEASE, retry_after=1, chance=0.1), Rule(429, path=NOT_THE_LEASE, chance=0.1)]
CONFLICTS = [Rule(409, "PATCH", "/status", chance=0.3), Rule(409, "POST", "/pods$", chance=0.2)]
"""The second is what a ResourceQuota answers that is just being counted."""
UNHEARD = [Rule(0, path=NOT_THE_LEASE, chance=0.05), Rule(0, path=NOT_THE_LEASE, chance=0.05, performed=True)]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("rules", [LATER, CONFLICTS, UNHEARD], ids=["429", "409", "no answer"])
def test_jobs_end_although_requests_are_refused_at_random(plane: ControlPlane, play: Play, rules: list[Rule]) -> None:
    async def scenario(on: FaultScenario) -> None:
        async with FaultProxy(on.plane, given := list(rules), seed=7) as proxy:
            await on.replicas.start(proxy.url)
            await on.replicas.leader()
            for number in range(GANGS):
                await on.make(*jobs.mixture(number, 0.3))
            await on.until_all_ended(timeout_s=150)
            assert all(rule.applied for rule in rules)
            given.clear()
            await on.check_invariants()

    play(plane, scenario, lease=4.0)


@pytest.mark.parametrize("status", [403, 422, 500])
def test_a_refused_status_delays_only_its_own_job(plane: ControlPlane, play: Play, status: int) -> None:
    async def scenario(on: FaultScenario) -> None:
        given = [Rule(status, "PATCH", "/cursed/status")]
        async with FaultProxy(on.plane, given) as proxy:
            await on.replicas.start(proxy.url)
            await on.replicas.leader()
            await on.make(jobs.training_job("cursed", 2, work=0.2))
            for number in range(3):
                await on.make(jobs.training_job(f"other-{number}", 2, work=0.2))
            await on.until_phase("Succeeded", *(f"other-{number}" for number in range(3)))
            assert given[0].applied
            pods = (await on.api.get("/api/v1/pods"))["items"]
            assert not [pod for pod in pods if pod["metadata"]["name"].startswith("cursed")]
            given.clear()
            await on.until_all_ended()

    play(plane, scenario, lease=4.0)


def test_a_job_whose_state_was_never_written_is_started_by_the_next_leader(plane: ControlPlane, play: Play) -> None:
    async def scenario(on: FaultScenario) -> None:
        given = [Rule(403, "PATCH", "/cursed/status")]
        async with FaultProxy(on.plane, given) as proxy:
            await on.replicas.start(proxy.url)
            first = await on.replicas.leader()
            await on.make(jobs.training_job("cursed", 2, work=0.2), jobs.training_job("other", 2, work=0.2))
            await on.until_phase("Succeeded", "other")
            given.clear()
            on.replicas.kill(first)
            await on.replicas.start()
            await on.replicas.leader()
            await on.until_all_ended()

    play(plane, scenario)
