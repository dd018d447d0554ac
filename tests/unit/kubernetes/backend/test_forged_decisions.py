"""Decisions that a tenant writes on a bound pod of its own: the next leader binds nothing by them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from recorded_api import Cluster, RecordedApi

LABELS = {"windlass.dev/gang": "g"}
SIZE = {"windlass.dev/gang-size": "1"}
TAINT = {"key": "team", "value": "other", "effect": "NoSchedule"}


def cluster_with_quota(api: RecordedApi) -> Cluster:
    """A node for everybody, a tainted node, and 1 GPU for the queue of both pods."""
    cluster = Cluster("n1", api=api)
    cluster.put_node("theirs", taints=[TAINT])
    about = {"name": "default", "uid": "q", "resourceVersion": "1"}
    spec: dict[str, Any] = {"namespaceSelector": {}, "quota": {"gpu": 1}}
    cluster.backend.cluster.queues["default"] = {"metadata": about, "spec": spec}
    cluster.backend.cluster.declare()
    return cluster


def test_a_new_leader_binds_no_pod_by_a_forged_decision() -> None:
    async def story() -> None:
        api = RecordedApi()
        cluster = cluster_with_quota(api)
        forged = json.dumps({"name": "g", "nodes": {"n1": ["uid-first"], "theirs": ["uid-second"]}})
        annotations = {**SIZE, "windlass.dev/state": forged}
        cluster.put_pod("first", 1, node="n1", scheduler="windlass", labels=LABELS, annotations=annotations)
        cluster.put_pod("second", 2, scheduler="windlass", labels=LABELS, annotations=SIZE)
        await cluster.lead()
        await cluster.run(4)
        assert (api.bound, api.deleted) == ({}, [])
        assert dict(cluster.controller.snapshot().usage_by_queue) == {"default": {"gpu": 1, "pods": 1}}
        await cluster.backend.close()

    asyncio.run(story())
