"""What a gang stands on goes away: a node, or its namespace."""

from __future__ import annotations

import pytest
from controlplane.api import ApiError
from controlplane.cluster import ControlPlane

from . import jobs
from .conftest import Play
from .story import Story


def test_a_node_is_deleted_under_a_bound_gang(plane: ControlPlane, play: Play) -> None:
    """Alone, the API server keeps the pods of a node that is gone: nobody waits for them."""

    async def tale(on: Story) -> None:
        await on.replicas.start()
        await on.make(
            jobs.training_job("ours", 4),
            jobs.pytorch_job("theirs", 4, gang=True),
            *jobs.pod_group("others", 2),
        )
        await on.until_phase("Running", "ours", "theirs")
        used = {pod["spec"]["nodeName"] for pod in (await on.api.get("/api/v1/pods"))["items"]}
        await on.kubelets.add_nodes(["late-1", "late-2"], gpus=4)
        gone = min(used)
        await on.kubelets.remove_nodes([gone])

        async def elsewhere() -> bool:
            pods = [each for each in on.witness.pods.values() if each["metadata"].get("ownerReferences")]
            return len(pods) == 8 and all(
                each["status"]["phase"] == "Running" and each["spec"].get("nodeName") != gone for each in pods
            )

        await on.until(elsewhere, "both gangs run where there are nodes")
        await on.until_phase("Running", "ours", "theirs")

    play(plane, tale)


@pytest.mark.controllers
def test_a_namespace_is_deleted_under_a_job(with_controllers: ControlPlane, play: Play) -> None:
    async def tale(on: Story) -> None:
        await on.surely(lambda: on.api.post("/api/v1/namespaces", {"metadata": {"name": "team"}}))
        await on.replicas.start()

        async def has_an_account() -> object:
            return await on.api.get("/api/v1/namespaces/team/serviceaccounts/default")

        await on.until(has_an_account, "the namespace's service account")
        await on.make(jobs.training_job("doomed", 3, namespace="team"))
        await on.until_phase("Running", "doomed")
        await on.make(jobs.training_job("waits", 4, 0.2))
        await on.until_phase("Queued", "waits")
        await on.api.delete("/api/v1/namespaces/team")

        async def gone() -> bool:
            try:
                await on.api.get("/api/v1/namespaces/team")
            except ApiError as failed:
                return failed.status == 404
            return False

        await on.until(gone, "the namespace is gone")
        await on.until_phase("Succeeded", "waits")
        assert list(on.kubelets.alive()) == []

    play(with_controllers, tale, nodes=1, heartbeat=2)
