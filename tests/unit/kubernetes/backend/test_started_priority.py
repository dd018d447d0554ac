"""A gang that holds nodes keeps the priority that its PriorityClass had when it started, under every leader."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from recorded_api import TRAINING, Cluster

from windlass.backends.kubernetes.client import objects
from windlass.backends.kubernetes.client.object_cache import Change


def manifest(**status: Any) -> dict[str, Any]:
    about = {"name": "digits", "namespace": "ml", "uid": "u", "resourceVersion": "1", "generation": 1}
    spec = {"image": "x", "command": "torchrun train.py", "gpus": 2, "pod": {"spec": {"priorityClassName": "high"}}}
    times = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    return {
        "apiVersion": TRAINING.api_version,
        "kind": TRAINING.kind,
        "metadata": {**about, **times},
        "spec": spec,
        **status,
    }


def see_class(on: Cluster, value: int, kind: str = "modified") -> None:
    about = {"name": "high", "uid": "high", "resourceVersion": "1"}
    seen = objects.priority_class(orjson.dumps({"metadata": about, "value": value}))
    on.backend.monitor.lookups.see_priorities([Change(kind, seen)])


async def change_class(value: int, kind: str) -> list[int]:
    """Returns the priority of a running gang before and after a change of its class, and under the next leader."""
    first = Cluster("n1")
    see_class(first, 1000)
    await first.lead()
    first.backend.job_reader.update(TRAINING, manifest())
    await first.run(4)
    found = [first.controller.states["ml/digits"].job.priority]
    see_class(first, value, kind)
    await first.run(3)
    found.append(first.controller.states["ml/digits"].job.priority)
    second = Cluster("n1", api=first.api)
    if kind != "deleted":
        see_class(second, value)
    follows = manifest(status=first.api.statuses["digits"])
    follows["metadata"]["resourceVersion"] = "900"
    second.backend.job_reader.update(TRAINING, follows)
    await second.lead()
    found.append(second.controller.states["ml/digits"].job.priority)
    await first.backend.close()
    await second.backend.close()
    return found


def test_a_running_gang_keeps_the_priority_of_a_deleted_class() -> None:
    assert asyncio.run(change_class(1000, "deleted")) == [1000, 1000, 1000]


def test_a_running_gang_keeps_its_priority_when_its_class_gets_another_value() -> None:
    assert asyncio.run(change_class(5, "modified")) == [1000, 1000, 1000]
