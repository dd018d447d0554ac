"""Rights that few jobs need, used with the operator's own account: autoscalers, deletion after an end, and statuses."""

from __future__ import annotations

import asyncio
from typing import Any

from backend_host import Behaviour
from operator_place import PYTORCHJOBS, OperatorPlace

from windlass.controlplane.api import ApiError
from windlass.jobs.kubernetes.labels import RUNTIME

TRAINJOBS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs"
AUTOSCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
POLICIES = "/apis/windlass.dev/v1alpha1/schedulingpolicies"
RESERVATIONS = "/apis/windlass.dev/v1alpha1/reservations"
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}


def test_an_elastic_job_has_an_autoscaler_and_is_deleted_after_its_time_to_live(tell) -> None:
    async def story(place: OperatorPlace) -> None:
        jobs = PYTORCHJOBS.replace("/pytorchjobs", "/namespaces/default/pytorchjobs")
        container = {"name": "pytorch", "image": "i", "command": [Behaviour.SUCCEED.value]}
        elastic = {"minReplicas": 1, "maxReplicas": 2, "metrics": [CPU]}
        worker = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
        spec = {
            "runPolicy": {"ttlSecondsAfterFinished": 1, "cleanPodPolicy": "None"},
            "elasticPolicy": elastic,
            "pytorchReplicaSpecs": {"Worker": worker},
        }
        await place.api.post(jobs, {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", **named("e"), "spec": spec})
        assert (await until_found(place, f"{AUTOSCALERS}/e"))["spec"]["maxReplicas"] == 2
        while await found(place, f"{jobs}/e"):  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.1)
        await place.api.delete(f"{AUTOSCALERS}/e")

    tell(story)


def test_a_time_to_live_that_is_set_after_the_end_deletes_the_job(tell) -> None:
    async def story(place: OperatorPlace) -> None:
        jobs = PYTORCHJOBS.replace("/pytorchjobs", "/namespaces/default/pytorchjobs")
        container = {"name": "pytorch", "image": "i", "command": [Behaviour.SUCCEED.value]}
        spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": {"spec": {"containers": [container]}}}}}
        await place.api.post(jobs, {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", **named("l"), "spec": spec})
        while (await place.api.get(f"{jobs}/l")).get("status", {}).get("state") != "Succeeded":  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.1)
        await place.api.patch(f"{jobs}/l", {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 0}}})
        while await found(place, f"{jobs}/l"):  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.1)

    tell(story)


def test_a_trainjob_a_reservation_and_a_policy_have_a_status(tell) -> None:
    async def story(place: OperatorPlace) -> None:
        trainer = {"image": "i", "command": [Behaviour.SUCCEED.value]}
        spec = {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer}
        kind = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
        about = {"metadata": {"name": "t", "annotations": {RUNTIME: "built-in"}}}
        await place.api.post(TRAINJOBS, {**kind, **about, "spec": spec})
        window = {"nodes": ["nowhere"], "start": "2030-01-01T00:00:00Z", "end": "2030-01-02T00:00:00Z"}
        kind = {"apiVersion": "windlass.dev/v1alpha1", "kind": "Reservation"}
        await place.api.post(RESERVATIONS, {**kind, **named("r"), "spec": window})
        kind = {"apiVersion": "windlass.dev/v1alpha1", "kind": "SchedulingPolicy"}
        await place.api.post(
            POLICIES, {**kind, **named("default"), "spec": {"order": "fifo", "starvation_guard": "1h"}}
        )
        for path in (f"{TRAINJOBS}/t", f"{RESERVATIONS}/r", f"{POLICIES}/default"):
            while not (await place.api.get(path)).get("status"):  # noqa: ASYNC110 - polled
                await asyncio.sleep(0.1)
            await place.api.delete(path)

    tell(story)


def named(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}}


async def found(place: OperatorPlace, path: str) -> dict[str, Any]:
    """The object; empty if there is none."""
    try:
        return await place.api.get(path)
    except ApiError as error:
        if error.status != 404:
            raise
        return {}


async def until_found(place: OperatorPlace, path: str) -> dict[str, Any]:
    while not (there := await found(place, path)):  # noqa: ASYNC110 - polled
        await asyncio.sleep(0.1)
    return there
