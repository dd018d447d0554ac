"""The path of one gang in the code, from an event of its pod to its status that is written, stays short.

`code_path` says what a place is. The path is what runs when the watch has brought the pod, until the PATCH is sent.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from recorded_api import Cluster, RecordedApi

from code_path import CodePath, trace_path
from windlass.backends.kubernetes.client.object_cache import Change
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.run import Run
from windlass.controller.controller import run
from windlass.controller.observer import Observer
from windlass.core.model.status import JobState

JOB = "ml/digits"
DESIGN = Path(__file__).parents[4] / "docs/design/kubernetes.md"
HAND_OVERS = ("ChangedGangs.mark", "Inbox.put", "Turn.add_state", "_patch")
"""The functions at which a stage of the path leaves its result for the next one."""
REPORT = {"Running": "MemberTracker.start", "Failed": "MemberTracker.end", "Succeeded": "MemberTracker.end"}
"""The first of them, by the pod's phase."""
REASON = {"Running": "Running", "Failed": "ExitCode", "Succeeded": "Running"}
"""Reason of the job's status that follows."""
FAILED = {"name": "main", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}


class WatchedApi(RecordedApi):
    """Ends the path when the status is written."""

    path: CodePath | None = None

    def __init__(self) -> None:
        super().__init__()
        self.written = asyncio.Event()

    async def patch(self, *about: Any, **options: Any) -> Any:
        if self.path is not None:
            self.path.end()
            self.written.set()
        return await super().patch(*about, **options)


def is_the_gang(value: object) -> bool:
    return isinstance(value, Gang | Run | Pod) or (isinstance(value, JobState) and value.id == JOB)


def in_phase(cluster: Cluster, pod: Pod, phase: str) -> Pod:
    manifest = msgspec.to_builtins(pod)
    manifest["metadata"]["resourceVersion"] = str(10_000 + int(manifest["metadata"]["resourceVersion"]))
    manifest["spec"]["nodeName"] = cluster.api.bound[pod.metadata.name]
    status = {"phase": phase, "containerStatuses": [FAILED] if phase == "Failed" else []}
    return msgspec.convert(manifest | {"status": status}, Pod)


async def trace(phase: str, *, hand_overs: bool) -> CodePath:
    """Follows a gang of two pods, of which the second comes to this phase."""
    api = WatchedApi()
    cluster = Cluster("n1", "n2", api=api)
    await cluster.lead()
    cluster.put_job(nodes=2, gpus=2)
    await cluster.run()
    first, second = cluster.backend.pods.all()
    loop = asyncio.create_task(run(cluster.controller, cluster.backend, [Observer()], on_trouble=pytest.fail))
    for pod in (first, second) if phase != "Running" else (first,):
        cluster.backend.pods.learn(in_phase(cluster, pod, "Running"))
    await asyncio.sleep(0.05)
    changed = in_phase(cluster, cluster.backend.pods.get("ml", second.metadata.name), phase)
    with trace_path(is_the_gang, (*HAND_OVERS, REPORT[phase]) if hand_overs else ()) as api.path:
        cluster.backend.pods.apply([Change("modified", changed)])
        await asyncio.wait_for(api.written.wait(), 10)
    await asyncio.sleep(0)
    assert cluster.backend.jobs.get(JOB).status.reason == REASON[phase]
    loop.cancel()
    await cluster.backend.close()
    return api.path


@pytest.mark.parametrize("phase", REPORT)
def test_the_path_from_a_pods_event_to_the_written_status_is_short(phase: str):
    path = asyncio.run(trace(phase, hand_overs=True))
    assert path.missed == set()
    assert len(path.places) <= 20, path
    assert len(path.modules) <= 8, path
    assert path.returns <= 5, path
    assert len(path.names) <= 15, path


def test_the_design_lists_the_places_of_the_path_in_their_order():
    text = DESIGN.read_text().partition("## From a pod's event to the status")[2].partition("\n## ")[0]
    listed = [step.replace("/", ".") for step in re.findall(r"^\d+\. `([^`]+)`", text, re.MULTILINE)]
    places = [str(place) for place in asyncio.run(trace("Running", hand_overs=True)).places]
    assert listed == [place.removeprefix("backends.kubernetes.") for place in places]


@pytest.mark.parametrize("phase", REPORT)
def test_few_functions_pass_the_gang_to_others(phase: str):
    """Counts also what a stage only asks for, such as the counts of pods in the status."""
    path = asyncio.run(trace(phase, hand_overs=False))
    assert len(path.places) <= 43, path
    assert len(path.modules) <= 16, path
    assert path.returns <= 9, path
    assert len(path.names) <= 15, path
