"""Objects belong to a job only in its own namespace, whatever uid their writers have put into `ownerReferences`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from recorded_api import TRAINING, Cluster

from windlass.backends.kubernetes.client.object_cache import Change
from windlass.jobs.kubernetes.labels import GENERATION


def owners(uid: str, *, controller: bool = True) -> list[dict[str, Any]]:
    return [{"apiVersion": "v1", "kind": TRAINING.kind, "name": "digits", "uid": uid, "controller": controller}]


def launcher(namespace: str) -> Change[dict[str, Any]]:
    about = {"namespace": namespace, "name": "digits-launcher", "uid": "job", "ownerReferences": owners("u")}
    return Change("added", {"metadata": {**about, "resourceVersion": "1"}, "spec": {}})


@pytest.mark.parametrize(
    ("namespace", "controller", "is_owned"), [("ml", True, True), ("other", True, False), ("ml", False, False)]
)
def test_a_job_owns_the_pods_that_it_controls_in_its_namespace(
    namespace: str, controller: bool, is_owned: bool
) -> None:
    async def story() -> None:
        cluster = Cluster("n1")
        cluster.put_job(gpus=1)
        await cluster.lead()
        gang = cluster.backend.jobs.get("ml/digits")
        assert gang is not None
        about = {"ownerReferences": owners("u", controller=controller), "labels": {GENERATION: "1"}}
        pod = cluster.put_pod("digits-worker-0", 1, scheduler="windlass", namespace=namespace, **about)
        assert cluster.backend.gangs.owner(pod) is (gang if is_owned else None)
        assert list(cluster.backend.pods.owned(gang.reference.owner_key)) == ([pod] if is_owned else [])
        cluster.remove_pod(pod)
        assert list(cluster.backend.pods.owned(gang.reference.owner_key)) == []
        await cluster.backend.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("job", "pod", "is_owned"), [("ml", "ml", True), ("other", "other", False), ("ml", "other", False)]
)
def test_a_launchers_job_and_its_pods_belong_to_a_job_of_their_namespace(job: str, pod: str, is_owned: bool) -> None:
    async def story() -> None:
        cluster = Cluster("n1")
        cluster.put_job(gpus=1)
        await cluster.lead()
        gang = cluster.backend.jobs.get("ml/digits")
        assert gang is not None
        cluster.backend.see_jobs([launcher(job)])
        made = cluster.put_pod(
            "digits-launcher-x", 1, scheduler="windlass", namespace=pod, ownerReferences=owners("job")
        )
        assert cluster.backend.gangs.owner(made) is (gang if is_owned else None)
        launchers = cluster.backend.launchers
        assert bool(launchers.of(gang.reference.owner_key)) is (job == "ml")
        assert list(launchers.pods(gang.reference.owner_key)) == ([made] if is_owned else [])
        await cluster.backend.close()

    asyncio.run(story())
