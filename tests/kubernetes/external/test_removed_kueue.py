"""Jobs in queues of Kueue on a cluster whose definitions of Kueue are removed and installed again."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from windlass.backends.kubernetes import watches
from windlass.backends.kubernetes.client.resources import Resource
from windlass.backends.kubernetes.kueue.workload_object import FLAVORS, WORKLOADS
from windlass.backends.kubernetes.served_kinds import KindRemoval
from windlass.controlplane.cluster import ControlPlane

from .conftest import DEFINITIONS, is_established
from .rig import Rig, rig

pytestmark = [pytest.mark.controllers, pytest.mark.timeout(240)]
JOBS = "/apis/windlass.dev/v1alpha1/namespaces/default/trainingjobs"
JOB = {
    "apiVersion": "windlass.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "one", "labels": {"kueue.x-k8s.io/queue-name": "research"}},
    "spec": {"image": "img:1", "command": ["torchrun", "train.py"], "gpus": 1},
}


def definition(kind: Resource) -> dict[str, Any]:
    """A definition of a kind of Kueue that accepts all fields."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": kind.version, "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    approved = {"api-approved.kubernetes.io": "unapproved, for tests"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}", "annotations": approved},
        "spec": {
            "group": kind.group,
            "names": {"plural": kind.plural, "kind": kind.kind},
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [version],
        },
    }


async def install(cluster: Rig) -> None:
    for each in map(definition, (WORKLOADS, FLAVORS)):
        await cluster.api.post(DEFINITIONS, each)
        await cluster.until(lambda name=each["metadata"]["name"]: is_established(cluster.api, name))


async def remove(cluster: Rig) -> None:
    for each in map(definition, (WORKLOADS, FLAVORS)):
        await cluster.api.delete(f"{DEFINITIONS}/{each['metadata']['name']}")


async def until_verdict(cluster: Rig, words: str) -> None:
    async def verdict() -> bool:
        found = cluster.schedulers[0].controller.plan.verdicts.get("default/one")
        return found is not None and words in found.message

    await cluster.until(verdict, 60)


def test_a_waiting_job_follows_the_removal_and_the_return_of_kueue(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "KindRemoval", partial(KindRemoval, after_s=0.5))

    async def scenario() -> None:
        async with rig(plane) as cluster:
            await install(cluster)
            await cluster.scheduler()
            await cluster.api.post(JOBS, JOB)
            await until_verdict(cluster, "Kueue has not admitted it in the queue research")
            await remove(cluster)
            await until_verdict(cluster, "which this cluster lacks: remove the label")
            await install(cluster)
            await until_verdict(cluster, "Kueue has not admitted it in the queue research")
            await cluster.api.delete(f"{JOBS}/one")
            await remove(cluster)

    asyncio.run(scenario())
