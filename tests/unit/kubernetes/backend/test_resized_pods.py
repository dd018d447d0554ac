"""Pods of gangs that their owner resizes in place: they use more of the node and of the quota, under every leader."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from recorded_api import Cluster

from windlass.backends.kubernetes.client.objects import Pod
from windlass.core.queues.queue_tree import tree_of
from windlass.core.queues.usage import QueueUsage

CONTAINER = {"name": "main", "resources": {"requests": {"cpu": "1"}}}


def free_cpus(cluster: Cluster) -> float:
    column = cluster.controller.ledger.table.column["cpu"]
    return float(cluster.controller.snapshot().free[0, column]) / 1000


def used_cpus(cluster: Cluster) -> float:
    """CPUs that are charged to the default queue."""
    snapshot = cluster.controller.snapshot()
    usage = QueueUsage(tree_of(snapshot.queues), snapshot.usage_by_queue, snapshot.usage_by_user)
    return usage.total("default")["cpu"] / 1000


def resized(pod: Pod, cpus: int) -> Pod:
    written: dict[str, Any] = msgspec.to_builtins(pod)
    written["metadata"]["resourceVersion"] = str(int(written["metadata"]["resourceVersion"]) + 1000)
    written["spec"]["nodeName"] = "n1"
    written["spec"]["containers"][0]["resources"] = {"requests": {"cpu": str(cpus)}}
    return msgspec.convert(written | {"status": {"phase": "Running"}}, Pod)


def put_gang(cluster: Cluster, *, of_ours: bool, **status: Any) -> None:
    if of_ours:
        cluster.put_job(pod={"spec": {"containers": [CONTAINER]}}, **status)
        return
    about = {"namespace": "ml", "name": "lone", "uid": "lone", "resourceVersion": "50"}
    spec = {"schedulerName": "windlass", "containers": [CONTAINER]}
    cluster.backend.pods.learn(msgspec.convert({"metadata": about, "spec": spec, "status": {"phase": "Pending"}}, Pod))


@pytest.mark.parametrize("of_ours", [True, False])
def test_a_pod_of_a_gang_that_is_resized_leaves_less_for_others_and_is_charged_to_its_queue(*, of_ours: bool) -> None:
    async def story() -> None:
        cluster = Cluster("n1")
        await cluster.lead()
        put_gang(cluster, of_ours=of_ours)
        await cluster.run(4)
        (pod,) = cluster.backend.pods.all()
        assert free_cpus(cluster) == 63
        for cpus in (60, 8):
            pod = resized(pod, cpus)
            cluster.backend.pods.learn(pod)
            await cluster.run(2)
            assert (free_cpus(cluster), used_cpus(cluster)) == (64 - cpus, cpus)
        await cluster.backend.close()
        cluster = Cluster("n1", api=cluster.api)
        if of_ours:
            put_gang(cluster, of_ours=True, status=cluster.api.statuses["digits"])
        cluster.backend.pods.learn(pod)
        await cluster.lead()
        await cluster.run(2)
        assert free_cpus(cluster) == 64 - 8
        assert of_ours or used_cpus(cluster) == 8
        await cluster.backend.close()

    asyncio.run(story())
