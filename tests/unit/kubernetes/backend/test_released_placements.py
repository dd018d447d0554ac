"""Placements of gangs that have ended are forgotten, also if no other gang ever comes to their nodes."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from recorded_api import Cluster

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.owners import OwnerKey


def in_phase(pod: Pod, version: int, phase: str, **state: Any) -> Pod:
    written: dict[str, Any] = msgspec.to_builtins(pod)
    written["metadata"]["resourceVersion"] = str(1000 * version)
    written["spec"]["nodeName"] = "n1"
    container = {"name": "main", "state": state}
    return msgspec.convert(written | {"status": {"phase": phase, "containerStatuses": [container]}}, Pod)


async def run_to_its_end(cluster: Cluster) -> Pod:
    (pod,) = cluster.backend.pods.all()
    states: Any = {"Running": {"running": {}}, "Succeeded": {"terminated": {"exitCode": 0}}}
    for version, (phase, state) in enumerate(states.items(), 1):
        pod = in_phase(pod, version, phase, **state)
        cluster.backend.pods.learn(pod)
        await cluster.run(3)
    return pod


@pytest.mark.parametrize("of_ours", [True, False])
def test_nothing_is_left_of_a_gang_that_has_ended(*, of_ours: bool) -> None:
    async def story() -> None:
        cluster = Cluster("n1")
        await cluster.lead()
        if of_ours:
            cluster.put_job(gpus=2)
        else:
            cluster.put_pod("lone", 2, scheduler="windlass")
        await cluster.run(4)
        placements = cluster.backend.monitor.placements
        assert len(placements._holds) == 1
        pod = await run_to_its_end(cluster)
        cluster.backend.cluster.lose_node("n1")
        cluster.backend.job_reader.delete(OwnerKey("ml", "u"))
        cluster.remove_pod(pod)
        await cluster.run(2)
        assert (cluster.controller.states, placements._holds, dict(placements._gangs)) == ({}, {}, {})
        await cluster.backend.close()

    asyncio.run(story())
