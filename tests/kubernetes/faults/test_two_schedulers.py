"""kube-scheduler and Windlass allocate the devices of the same nodes at the same time.

Each sees the other's decisions only afterwards, so both may choose the last device of a node. Then the kubelet rejects
the second pod, and a gang of ours restarts elsewhere or later.
"""

from __future__ import annotations

import pytest

from windlass.controlplane.cluster import ControlPlane

from . import jobs
from .conftest import Play
from .fault_scenario import FaultScenario

GANGS, SINGLES = 6, 10


@pytest.mark.controllers
@pytest.mark.timeout(240)
def test_two_schedulers_place_their_pods_and_use_no_device_twice(with_controllers: ControlPlane, play: Play) -> None:
    async def scenario(on: FaultScenario) -> None:
        await on.replicas.start()
        await on.replicas.leader()
        for number in range(max(GANGS, SINGLES)):
            if number < GANGS:
                await on.make(jobs.training_job(f"gang-{number}", 2 + number % 3, 0.3))
            if number < SINGLES:
                await on.make(jobs.single(f"theirs-{number}", 0.3))

        async def all_done() -> bool:
            pods = (await on.api.get("/api/v1/pods"))["items"]
            theirs = [pod for pod in pods if pod["metadata"]["name"].startswith("theirs-")]
            return set((await on.phases()).values()) == {"Succeeded"} and all(
                pod["status"]["phase"] in ("Succeeded", "Failed") for pod in theirs
            )

        await on.until(all_done, "everybody is done", 180)
        by_scheduler = {pod["spec"]["schedulerName"] for pod in on.witness.pods.values()}
        assert by_scheduler == {"windlass", "default-scheduler"}

    play(with_controllers, scenario, nodes=2, heartbeat=2, alone=False)
