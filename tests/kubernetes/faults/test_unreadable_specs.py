"""Running jobs whose spec an edit has made unreadable, over a change of leader."""

from __future__ import annotations

import copy

from windlass.controlplane.cluster import ControlPlane

from . import jobs
from .conftest import Play
from .fault_scenario import FaultScenario

WORKERS = "pytorchReplicaSpecs"


def with_amount(name: str, amount: str) -> jobs.Manifest:
    """A job of two pods. The CRD accepts a fraction of a GPU, and the reader does not."""
    manifest = copy.deepcopy(jobs.pytorch_job(name, 2, gang=True))
    container = manifest["spec"][WORKERS]["Worker"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {jobs.GPU: amount}}
    return manifest


def path_of(name: str) -> str:
    return f"/apis/kubeflow.org/v1/namespaces/{jobs.NAMESPACE}/pytorchjobs/{name}"


def test_a_gang_with_an_unreadable_spec_is_managed_by_the_next_leader(plane: ControlPlane, play: Play) -> None:
    names = ["cancelled", "repaired"]

    async def scenario(on: FaultScenario) -> None:
        async def is_kept() -> bool:
            found = [await on.job(name, jobs.PYTORCHJOBS) for name in names]
            return all("lastReadable" in each["status"] for each in found)

        async def is_removed() -> bool:
            return "lastReadable" not in (await on.job("repaired", jobs.PYTORCHJOBS))["status"]

        await on.replicas.start()
        first = await on.replicas.leader()
        await on.make(*(with_amount(name, "1") for name in names))
        await on.until_phase("Running", *names)
        for name in names:
            await on.api.patch(path_of(name), {"spec": with_amount(name, "0.5")["spec"]})
        await on.until(is_kept, "the last readable specs are stored")
        on.replicas.kill(first)
        second = await on.replicas.start()
        await on.replicas.leader()
        await on.api.patch(path_of("cancelled"), {"metadata": {"annotations": {"windlass.dev/cancel": "ada"}}})
        await on.until_phase("Failed", "cancelled")
        await on.api.patch(path_of("repaired"), {"spec": with_amount("repaired", "1")["spec"]})
        await on.until(is_removed, "the stored spec is removed")
        assert second.leads
        assert (await on.job("repaired", jobs.PYTORCHJOBS))["status"]["windlass"]["generation"] == 1
        await on.api.patch(path_of("repaired"), {"metadata": {"annotations": {"windlass.dev/cancel": "ada"}}})
        await on.until_phase("Failed", "repaired")

    play(plane, scenario)
