"""A running gang that the leader could not read at first: it takes the gang over when the spec is repaired."""

from __future__ import annotations

import asyncio
from typing import Any

from recorded_api import TRAINING, Cluster

from windlass.backends.kubernetes.gangs import stored_state
from windlass.backends.kubernetes.gangs.stored_state import Stored
from windlass.core.model.status import Phase, Placement, Status

JOB = "ml/digits"
RUNNING = Status(phase=Phase.RUNNING, generation=1, is_gone=False, placement=Placement({"worker": ("n1", "n2")}))
OWNER = {
    "apiVersion": TRAINING.api_version,
    "kind": "TrainingJob",
    "name": "digits",
    "uid": "u",
    "controller": True,
}


def put_job(cluster: Cluster, version: int, **spec: Any) -> None:
    about = {"name": "digits", "namespace": "ml", "uid": "u", "resourceVersion": str(version), "generation": version}
    status = {stored_state.FIELD: stored_state.to_patch(Stored(5, 3, RUNNING))}
    spec = {"image": "x", "command": "torchrun train.py", "nodes": 2, "gpus": 2, **spec}
    manifest = {"apiVersion": TRAINING.api_version, "kind": TRAINING.kind, "metadata": about}
    cluster.backend.job_reader.update(TRAINING, manifest | {"spec": spec, "status": status})


def put_pods(cluster: Cluster) -> None:
    for index in range(2):
        labels = {"windlass.dev/generation": "1"}
        cluster.put_pod(
            f"digits-worker-{index}",
            2,
            node=f"n{index + 1}",
            scheduler="windlass",
            labels=labels,
            ownerReferences=[OWNER],
        )


def test_a_gang_is_managed_again_once_its_spec_is_repaired() -> None:
    async def story(cluster: Cluster) -> None:
        put_pods(cluster)
        put_job(cluster, 1, nodes=-1)
        await cluster.lead()
        await cluster.run(2)
        assert JOB not in cluster.controller.states
        put_job(cluster, 2)
        await cluster.run(3)
        assert cluster.status(JOB) == RUNNING
        gang = cluster.backend.jobs.get(JOB)
        assert gang is not None
        assert gang.run is not None
        assert cluster.api.deleted == []
        cluster.put_node("n2", taints=[{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}])
        await cluster.run(3)
        assert cluster.status(JOB).phase is not Phase.RUNNING

    async def whole() -> None:
        cluster = Cluster("n1", "n2")
        try:
            await story(cluster)
        finally:
            await cluster.backend.close()

    asyncio.run(whole())
