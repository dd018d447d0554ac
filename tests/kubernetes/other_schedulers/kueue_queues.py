"""A cluster queue of Kueue with four GPUs, its local queue `research`, and a priority above the default one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from windlass.controlplane import kueue
from windlass.controlplane.api import Api
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.kueue import KueueServer, until_answered
from windlass.controlplane.processes import Server
from windlass.deploy.crds import DEFAULT, crds

GROUP = "/apis/kueue.x-k8s.io/v1beta2"
QUEUE = "research"
GPUS = 4
FLAVOR = {"pool": "a100"}
"""Labels of the nodes of the flavor."""
_TRAINING_JOBS = "TrainingJob.v1alpha1.windlass.dev"


@contextmanager
def with_kueue(plane: ControlPlane) -> Iterator[None]:
    """Runs Kueue on a control plane, with its queue, and with the kinds of Windlass."""
    asyncio.run(_install(plane))
    with kueue.kueue_servers(plane, [_TRAINING_JOBS]) as servers:
        asyncio.run(_set_up(plane, servers))
        yield


async def _install(plane: ControlPlane) -> None:
    async with plane.api() as api:
        await kueue.install_kueue(api)
        await kueue.install(api, crds(DEFAULT))


async def _set_up(plane: ControlPlane, servers: tuple[KueueServer, ...]) -> None:
    async with plane.api() as api:
        await kueue.register_webhooks(api, plane, servers)
        await create_queues(api, servers)


def _cluster_queue() -> dict[str, Any]:
    quotas = [("cpu", "100"), ("memory", "1Ti"), ("nvidia.com/gpu", str(GPUS))]
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quotas]
    covered = [name for name, _ in quotas]
    group = {"coveredResources": covered, "flavors": [{"name": "a100", "resources": resources}]}
    preemption = {"withinClusterQueue": "LowerPriority"}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": QUEUE},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group], "preemption": preemption},
    }


async def create_queues(api: Api, servers: Sequence[Server]) -> None:
    about = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    flavor = {**about, "kind": "ResourceFlavor", "metadata": {"name": "a100"}, "spec": {"nodeLabels": FLAVOR}}
    await until_answered(api, f"{GROUP}/resourceflavors", flavor, servers)
    await until_answered(api, f"{GROUP}/clusterqueues", _cluster_queue(), servers)
    local = {**about, "kind": "LocalQueue", "metadata": {"name": QUEUE}, "spec": {"clusterQueue": QUEUE}}
    await api.post(f"{GROUP}/namespaces/default/localqueues", local)
    urgent = {**about, "kind": "WorkloadPriorityClass", "metadata": {"name": "urgent"}, "value": 1000}
    await api.post(f"{GROUP}/workloadpriorityclasses", urgent)
