"""Pods tolerate an unreachable node for the grace of their job or of its queue."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from recorded_api import Cluster, RecordedApi

KEYS = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]


class PodsApi(RecordedApi):
    """Notes the tolerations of created pods."""

    def __init__(self) -> None:
        super().__init__()
        self.tolerations: list[list[tuple[str, int]]] = []

    async def request(self, method: str, path: str, *, body: dict[str, Any]) -> bytes:
        tolerations = body["spec"].get("tolerations", [])
        self.tolerations.append([(each["key"], each["tolerationSeconds"]) for each in tolerations])
        return await super().request(method, path, body=body)


async def created_tolerations(queue: dict[str, Any], **job: Any) -> list[list[tuple[str, int]]]:
    cluster = Cluster("n1")
    api = PodsApi()
    cluster.api = cluster.backend.connection = api
    cluster.backend._executor.binding.connection = api
    metadata = {"name": "research", "uid": "q", "resourceVersion": "1"}
    cluster.backend.cluster.queues["research"] = {"metadata": metadata, "spec": {"namespaceSelector": {}, **queue}}
    cluster.backend.cluster.declare()
    try:
        cluster.put_job(nodes=1, queue="research", **job)
        await cluster.lead()
        await cluster.run(4)
        return api.tolerations
    finally:
        await cluster.backend.close()


@pytest.mark.parametrize(
    ("queue", "job", "seconds"),
    [
        ({}, {}, None),
        ({}, {"unreachable_grace": "30m"}, 1860),
        ({"unreachable_grace": "10m"}, {}, 660),
        ({"unreachable_grace": "10m"}, {"unreachable_grace": "5m"}, None),
    ],
)
def test_pods_tolerate_unreachable_nodes_for_the_grace(
    queue: dict[str, Any], job: dict[str, Any], seconds: int | None
) -> None:
    (tolerations,) = asyncio.run(created_tolerations(queue, **job))
    assert tolerations == ([(key, seconds) for key in KEYS] if seconds is not None else [])
