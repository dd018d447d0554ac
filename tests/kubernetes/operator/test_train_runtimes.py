"""TrainJobs and the runtimes of a real API server, under the operator's own account."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from backend_host import Behaviour
from operator_place import OperatorPlace
from train_jobs import CLUSTER_RUNTIMES, RUNTIMES, TRAINJOBS, images, runtime, trainjob

from windlass.jobs.kubernetes.train_runtimes import CLUSTER_RUNTIME

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
IGNORED = f"{EVENTS}?fieldSelector=reason%3DFieldsIgnored,regarding.kind%3DTrainJob"


async def until(place: OperatorPlace, name: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The status of a TrainJob, once the condition holds."""
    while not holds(status := (await place.api.get(f"{TRAINJOBS}/{name}")).get("status") or {}):  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    return status


def is_true(status: dict[str, Any], condition: str) -> bool:
    return any((each["type"], each["status"]) == (condition, "True") for each in status.get("conditions", ()))


def reasons_of(status: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["reason"] for each in status.get("conditions", ())}


async def repair_unmatched(place: OperatorPlace) -> None:
    """A change of a job that the runtime lacks fails the TrainJob until its spec is repaired."""
    job = trainjob("unmatched", "own", "TrainingRuntime")
    job["spec"]["podTemplateOverrides"] = [{"targetJobs": [{"name": "nodes"}], "spec": {}}]
    await place.api.post(TRAINJOBS, job)
    status = await until(place, "unmatched", lambda status: is_true(status, "Failed"))
    assert {each["reason"] for each in status["conditions"]} == {"Invalid"}
    await place.api.patch(f"{TRAINJOBS}/unmatched", {"spec": {"podTemplateOverrides": None}})
    status = await until(place, "unmatched", lambda status: is_true(status, "Complete"))
    assert not is_true(status, "Failed")


@pytest.mark.usefixtures("without_trainjobs")
def test_the_runtimes_of_the_cluster_decide_and_a_missing_one_is_awaited(tell) -> None:
    async def story(place: OperatorPlace) -> None:
        # 1. No runtime: the job has failed with the reason, and runs once the edited runtime exists.
        await place.api.post(TRAINJOBS, trainjob("early"))
        waiting = await until(place, "early", lambda status: is_true(status, "Failed"))
        accepted, failed = waiting["conditions"]
        assert (accepted["type"], accepted["reason"], waiting["state"]) == ("Accepted", "Waiting", "Created")
        assert (failed["type"], failed["status"], failed["reason"]) == ("Failed", "True", "TrainingRuntimeNotFound")
        assert "there is no ClusterTrainingRuntime 'torch-distributed'" in failed["message"]
        await place.api.post(CLUSTER_RUNTIMES, runtime("torch-distributed", "site:1", 2, Behaviour.RUN))
        runs = await until(place, "early", lambda status: status.get("state") == "Running")
        assert not is_true(runs, "Failed")
        assert await images(place, "early") == ["site:1", "site:1"]
        # 2. A later change of the runtime concerns new jobs only, and a runtime of the namespace is found.
        new = runtime("torch-distributed", "site:2", 1)["spec"]
        await place.api.patch(f"{CLUSTER_RUNTIMES}/torch-distributed", {"spec": new})
        seen = place.world.monitor.lookups.runtime
        while (seen(CLUSTER_RUNTIME, "", "torch-distributed") or {}).get("spec") != new:  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.05)
        own = {**runtime("own", "own:1", 3), "kind": "TrainingRuntime"}
        own["spec"]["podGroupPolicy"] = {"coscheduling": {"scheduleTimeoutSeconds": 9}}
        await place.api.post(RUNTIMES, own)
        await place.api.post(TRAINJOBS, trainjob("later"))
        await place.api.post(TRAINJOBS, trainjob("own", "own", "TrainingRuntime"))
        for name, image in (("later", ["site:2"]), ("own", ["own:1"] * 3)):
            await until(place, name, lambda status: is_true(status, "Complete"))
            assert await images(place, name) == image
        assert await images(place, "early") == ["site:1", "site:1"]
        while not (found := (await place.api.get(IGNORED))["items"]):  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.1)
        (event,) = found
        assert (event["regarding"]["name"], event["type"]) == ("own", "Warning")
        assert event["note"] == "runtime: podGroupPolicy.coscheduling.scheduleTimeoutSeconds has no effect"
        # 3. A runtime that cannot be used fails the job in the words of the trainer.
        flux = runtime("flux", "flux:1", 1)
        flux["spec"]["mlPolicy"] = {"numNodes": 1, "flux": {}}
        await place.api.post(CLUSTER_RUNTIMES, flux)
        await place.api.post(TRAINJOBS, trainjob("flux", "flux"))
        reasons = {"Accepted": "Invalid", "Failed": "TrainingRuntimeNotSupported"}
        # the job may be seen before its runtime
        status = await until(place, "flux", lambda status: reasons_of(status) == reasons)
        assert is_true(status, "Failed")
        await repair_unmatched(place)
        # 4. The time to live is the JobSet's: the pods are deleted, and the job stays.
        short = runtime("short", "short:1", 1)
        short["spec"]["template"]["spec"]["ttlSecondsAfterFinished"] = 0
        await place.api.post(CLUSTER_RUNTIMES, short)
        await place.api.post(TRAINJOBS, trainjob("short", "short"))
        await until(place, "short", lambda status: is_true(status, "Complete"))
        while await images(place, "short"):  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.1)
        assert is_true(await until(place, "short", bool), "Complete")

    tell(story)
