"""A node or the namespace of a running gang is deleted."""

from __future__ import annotations

import pytest

from windlass.controlplane.api import ApiError
from windlass.controlplane.cluster import ControlPlane

from . import jobs
from .conftest import Play
from .fault_scenario import FaultScenario


def test_a_gang_whose_node_is_deleted_restarts_elsewhere(plane: ControlPlane, play: Play) -> None:
    """Without controllers, the API server keeps the pods of a deleted node; the operator does not wait for them."""

    async def scenario(on: FaultScenario) -> None:
        await on.replicas.start()
        await on.make(
            jobs.training_job("ours", 4),
            jobs.pytorch_job("theirs", 4, gang=True),
            *jobs.pod_group("others", 2),
        )
        await on.until_phase("Running", "ours", "theirs")

        async def all_bound() -> bool:  # the external group may be bound after the jobs
            return all(pod["spec"].get("nodeName") for pod in (await on.api.get("/api/v1/pods"))["items"])

        await on.until(all_bound, "every pod bound")
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

    play(plane, scenario)


@pytest.mark.controllers
def test_a_job_whose_namespace_is_deleted_ends(with_controllers: ControlPlane, play: Play) -> None:
    async def scenario(on: FaultScenario) -> None:
        await on.retry(lambda: on.api.post("/api/v1/namespaces", {"metadata": {"name": "team"}}))
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

    play(with_controllers, scenario, nodes=1, heartbeat=2)
