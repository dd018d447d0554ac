"""MPIJobs v1 on an API server with Kubernetes' default admission plugins."""

from __future__ import annotations

import asyncio
import time

import pytest
from operator_place import OperatorPlace
from planes.tidy import clear

import strays

MPIJOBS = "/apis/kubeflow.org/v1/mpijobs"
MINE = "/apis/kubeflow.org/v1/namespaces/default/mpijobs"
PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
pytestmark = pytest.mark.apiserver


def mpi_job(name: str = "horovod") -> dict:
    """As training-operator's samples are: without a service account of its own."""
    limits = {"cpu": 1, "nvidia.com/gpu": 1}
    worker = {"name": "mpi", "image": "horovod:1", "command": ["python", "worker.py"], "resources": {"limits": limits}}
    launcher = {"name": "mpi", "image": "horovod:1", "command": ["python", "train.py"]}
    replicas = {
        "Launcher": {"replicas": 1, "template": {"spec": {"containers": [launcher]}}},
        "Worker": {"replicas": 2, "template": {"spec": {"containers": [worker]}}},
    }
    spec = {"slotsPerWorker": 1, "runPolicy": {"cleanPodPolicy": "None"}, "mpiReplicaSpecs": replicas}
    return {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "metadata": {"name": name}, "spec": spec}


def test_an_mpijob_v1_starts_where_its_launcher_has_a_service_account_of_its_own(tell):
    async def story(place: OperatorPlace) -> None:
        try:
            await place.api.post(MINE, mpi_job())
            give_up = time.monotonic() + strays.TIMEOUT_S
            while len(phases := await running(place)) < 3:
                await asyncio.sleep(0.1)
                assert time.monotonic() < give_up, (
                    f"{await place.ask('/v1/jobs/mpijob/horovod')} {(await place.api.get(PODS))['items']}"
                )
            assert sorted(phases) == ["horovod-launcher", "horovod-worker-0", "horovod-worker-1"]
            found = await place.phase("mpijob/horovod", "Running")
            assert found["attempts"] == 1
        finally:
            await clear(place.api, MPIJOBS, CONFIG_MAPS)

    tell(story)


def test_a_config_map_of_another_owner_stops_an_mpijob_until_it_is_deleted(tell):
    async def story(place: OperatorPlace) -> None:
        about = {"name": "pi-config"}
        try:
            theirs = await place.api.post(CONFIG_MAPS, {"metadata": about, "data": {"hostfile": "elsewhere slots=8"}})
            await place.api.post(MINE, mpi_job("pi"))
            give_up = time.monotonic() + strays.TIMEOUT_S
            while not (notes := [each["note"] for each in await faults_of(place, "pi")]):
                assert time.monotonic() < give_up
                await asyncio.sleep(0.1)
            assert notes[0] == (
                "cannot use an object: ConfigMap default/pi-config exists and does not belong to this job: "
                "delete it (kubectl delete configmaps -n default pi-config), or give the job another name"
            )
            found = await place.api.get(f"{CONFIG_MAPS}/pi-config")
            assert (found["metadata"]["uid"], found["data"]) == (theirs["metadata"]["uid"], theirs["data"])
            assert await running(place) == []
            await place.api.delete(f"{CONFIG_MAPS}/pi-config")
            await place.phase("mpijob/pi", "Running")
            made = await place.api.get(f"{CONFIG_MAPS}/pi-config")
            assert made["metadata"]["ownerReferences"][0]["name"] == "pi"
        finally:
            await clear(place.api, MPIJOBS, CONFIG_MAPS)

    tell(story)


async def faults_of(place: OperatorPlace, name: str) -> list[dict]:
    listed = (await place.api.get("/apis/events.k8s.io/v1/namespaces/default/events"))["items"]
    return [each for each in listed if each["reason"] == "ObjectFault" and each["regarding"]["name"] == name]


async def running(place: OperatorPlace) -> list[str]:
    listed = (await place.api.get(PODS))["items"]
    return [pod["metadata"]["name"] for pod in listed if pod["status"]["phase"] == "Running"]
