"""TrainJobs, runtimes and pods of tests on a real API server."""

from __future__ import annotations

import copy
from typing import Any

from backend_host import Behaviour
from operator_place import OperatorPlace
from planes.tidy import clear

from windlass.controlplane.cluster import ControlPlane
from windlass.jobs.kubernetes.train_runtimes import CLUSTER_RUNTIME, built_in

GROUP = "/apis/trainer.kubeflow.org/v1alpha1"
TRAINJOBS = f"{GROUP}/namespaces/default/trainjobs"
RUNTIMES = f"{GROUP}/namespaces/default/trainingruntimes"
CLUSTER_RUNTIMES = f"{GROUP}/clustertrainingruntimes"
PODS = "/api/v1/namespaces/default/pods"


def runtime(name: str, image: str, nodes: int, behaviour: Behaviour = Behaviour.SUCCEED) -> dict[str, Any]:
    made = copy.deepcopy(built_in(CLUSTER_RUNTIME, "", "torch-distributed"))
    assert made is not None
    made["metadata"]["name"] = name
    made["spec"]["mlPolicy"]["numNodes"] = nodes
    (job,) = made["spec"]["template"]["spec"]["replicatedJobs"]
    (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
    container.update(image=image, command=[behaviour.value])
    return made


def trainjob(name: str, of: str = "torch-distributed", kind: str = CLUSTER_RUNTIME) -> dict[str, Any]:
    spec = {"runtimeRef": {"name": of, "kind": kind}}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": name}, "spec": spec}


async def images(place: OperatorPlace, name: str) -> list[str]:
    found = await place.api.get(f"{PODS}?labelSelector=jobset.sigs.k8s.io/jobset-name%3D{name}")
    return [each["spec"]["containers"][0]["image"] for each in found["items"]]


async def clear_trainjobs(plane: ControlPlane) -> None:
    """Removes every TrainJob and runtime, also where a test has failed: jobs left would fill the next test's nodes."""
    async with plane.api() as api:
        for kind in (TRAINJOBS, RUNTIMES, CLUSTER_RUNTIMES):
            await clear(api, kind)
