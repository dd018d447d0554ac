"""A failed job on a cluster is diagnosed by itself: its object, its Events and its details have the verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from backend_host import Behaviour
from node_logs import LongLog, logs_of_nodes
from operator_place import OperatorPlace, leading
from verdict_conditions import condition_of, event_with

import strays
from windlass.backends.port import Changes, Transition
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.fake_pod import Script
from windlass.core.model.diagnosed_cause import AVOID_NODE, CERTAIN, NODE_SCOPE, DiagnosedCause
from windlass.core.model.job import Job, Role
from windlass.core.model.status import Failure, FailureClass, JobState, Phase, Status
from windlass.server.operator.node_cordon import NodeCordon

pytestmark = pytest.mark.apiserver

TRACEBACK = """Traceback (most recent call last):
  File "/home/user/train.py", line 3, in <module>
    import einops
ModuleNotFoundError: No module named 'einops'
"""


def test_the_verdict_is_a_condition_an_event_and_part_of_the_history(apiserver: ControlPlane, tmp_path: Path):
    async def story() -> None:
        async with (
            asyncio.timeout(strays.TIMEOUT_S * 4),
            leading(apiserver, tmp_path) as place,
            logs_of_nodes(apiserver, place.api, lambda _pod: TRACEBACK),
        ):
            await place.submit("digits", Behaviour.FAIL, replicas=2)
            found = await condition_of(place, "digits")
            assert (found["status"], found["reason"]) == ("True", "PackageMissing")
            assert found["message"].startswith("attempt 1: ")
            assert "einops" in found["message"]
            assert len(found["message"].encode()) <= 1_024
            event = await event_with(place, "TrainingJobDiagnosed", found["message"])
            assert event["type"] == "Warning"
            details = await place.until("/v1/jobs/digits", lambda job: job["diagnosis"])
            assert (details["diagnosis"]["rule"], details["awaits_diagnosis"]) == ("package-missing", False)
            [ended] = (await place.get("/v1/history"))["jobs"]
            assert ended["diagnosis"] == details["diagnosis"]

    asyncio.run(story())


def test_the_cause_at_the_start_of_a_log_of_200_mb_is_found(apiserver: ControlPlane, tmp_path: Path):
    waits = "shutdown: thread 17 of the loader has not ended, waiting\n"
    log = LongLog("warming up\n" * 80_000 + TRACEBACK, waits, 200_000_000 // len(waits), "shutdown: gave up\n")
    assert len(log) > 200_000_000

    async def story() -> None:
        async with (
            asyncio.timeout(strays.TIMEOUT_S * 4),
            leading(apiserver, tmp_path) as place,
            logs_of_nodes(apiserver, place.api, lambda _pod: log),
        ):
            await place.submit("digits", Behaviour.FAIL)
            found = await condition_of(place, "digits")
            assert found["reason"] == "PackageMissing", found
            assert "not seen: pod digits-worker-0: the lines between its first and its last ones" in found["message"]
            [kept] = (await place.get("/v1/jobs/digits/logs"))["logs"]
            assert (kept["text"].count("\n"), "einops" in kept["text"]) == (500, False)

    asyncio.run(story())


def test_without_logs_the_verdict_rests_on_the_ends_of_pods_and_says_so(
    tell: Callable[[Callable[[OperatorPlace], Any]], None],
):
    async def story(place: OperatorPlace) -> None:
        for node in ("n1", "n2"):
            await place.api.patch(f"/api/v1/nodes/{node}/status", _closed_address())
        await place.submit("digits", Behaviour.FAIL)
        found = await condition_of(place, "digits")
        assert "its log could not be read" in found["message"]

    tell(story)


def test_a_pod_that_cannot_start_has_a_verdict(tell: Callable[[Callable[[OperatorPlace], Any]], None]):
    async def story(place: OperatorPlace) -> None:
        await place.submit("digits", Behaviour.UNSTARTABLE)
        found = await condition_of(place, "digits")
        assert found["reason"] in ("ImagePull", "ExecutableMissing"), found
        assert found["message"].startswith("attempt 1: ")

    tell(story)


def test_a_container_above_its_limit_of_memory_has_a_verdict(apiserver: ControlPlane, tmp_path: Path):
    killed = Script(work=0, code=137, reason="OOMKilled")

    async def story() -> None:
        async with (
            asyncio.timeout(strays.TIMEOUT_S * 4),
            leading(apiserver, tmp_path, script_of=lambda _pod: killed) as place,
            logs_of_nodes(apiserver, place.api, lambda _pod: "step 7 loss 0.3\n"),
        ):
            await place.submit("digits", Behaviour.FAIL)
            found = await condition_of(place, "digits")
            assert found["reason"] == "HostOomKilled", found

    asyncio.run(story())


def test_an_attempt_whose_node_is_gone_has_a_verdict(tell: Callable[[Callable[[OperatorPlace], Any]], None]):
    async def story(place: OperatorPlace) -> None:
        await place.submit("digits", gpus=2, replicas=2)
        await place.phase("digits", "Running")
        await place.kubelets.remove_nodes(["n2"])
        found = await condition_of(place, "digits")
        assert (found["reason"], found["message"].partition(": ")[0]) == ("NodeLost", "attempt 1"), found

    tell(story)


def verdict(job_id: str, node: str, at: int = 0, **changes: Any) -> Changes:
    """The commit of a verdict against a node."""
    cause = DiagnosedCause(1, "GPU 0 fell off the bus", "xid-79", CERTAIN, NODE_SCOPE, AVOID_NODE, node=node)
    failure = Failure(FailureClass.USER, "ExitCode", "rank 0 exited with code 1", at)
    status = Status(Phase.FAILED, generation=1, diagnosis=replace(cause, **changes), last_failure=failure)
    state = JobState(job_id, 1, Job(job_id.rpartition("/")[2], (Role(),)), status)
    return Changes((state,), (Transition(job_id, at, "Diagnosed", "Failed", "Failed", "attempt 1: …"),))


async def act_on(cordon: NodeCordon, *commits: Changes) -> None:
    for each in commits:
        cordon.on_commit_end(each)
        async with asyncio.timeout(strays.TIMEOUT_S):
            await asyncio.gather(*cordon.work)


def test_nodes_that_are_proven_bad_are_cordoned_up_to_the_limit(
    tell: Callable[[Callable[[OperatorPlace], Any]], None],
):
    async def story(place: OperatorPlace) -> None:
        said: list[str] = []
        cordon = NodeCordon(place.world.connection, 1, said.append)
        proven = [verdict(job_id, node, is_confirmed=True) for job_id, node in (("a/digits", "n1"), ("a/other", "n2"))]
        await act_on(cordon, verdict("a/guess", "n2", certainty="likely", is_confirmed=True), *proven)
        await cordon.close()
        assert said == [
            "node n1 is cordoned for a/digits attempt 1: xid-79: GPU 0 fell off the bus",
            "node n2 is not cordoned for a/other attempt 1: xid-79: 1 are (--cordon-bad-nodes)",
        ]
        first, second = [await place.api.get(f"/api/v1/nodes/{node}") for node in ("n1", "n2")]
        assert first["spec"]["unschedulable"]
        assert first["metadata"]["annotations"]["windlass.dev/cordon-reason"] == "a/digits attempt 1: xid-79"
        assert not second["spec"].get("unschedulable")

    tell(story)


def test_output_counts_against_a_node_only_if_jobs_of_two_namespaces_fail_there(
    tell: Callable[[Callable[[OperatorPlace], Any]], None],
):
    day = 24 * 3_600_000

    async def story(place: OperatorPlace) -> None:
        said: list[str] = []
        cordon = NodeCordon(place.world.connection, 2, said.append)
        await act_on(cordon, verdict("a/one", "n1", 1), verdict("a/two", "n1", 2), verdict("b/three", "n2", 3))
        await act_on(cordon, verdict("b/three", "n1", 3 + day))
        assert said == []
        await act_on(cordon, verdict("c/four", "n1", 4 + day))
        assert said == ["node n1 is cordoned for c/four attempt 1: xid-79: GPU 0 fell off the bus"]

    tell(story)


def test_a_node_that_an_administrator_uncordons_stays_so(tell: Callable[[Callable[[OperatorPlace], Any]], None]):
    async def story(place: OperatorPlace) -> None:
        said: list[str] = []
        commit = verdict("a/digits", "n1", is_confirmed=True)
        await act_on(NodeCordon(place.world.connection, 1, said.append), commit)
        undo = {"metadata": {"labels": {"windlass.dev/cordoned-by": None}}, "spec": {"unschedulable": None}}
        await place.api.patch("/api/v1/nodes/n1", undo)
        later = NodeCordon(place.world.connection, 1, said.append)  # that of the next leader
        await act_on(later, replace(commit, transitions=()), commit)
        assert said[1:] == ["node n1 stays uncordoned: it was cordoned for a/digits attempt 1: xid-79 before"]
        assert not (await place.api.get("/api/v1/nodes/n1"))["spec"].get("unschedulable")

    tell(story)


def _closed_address() -> dict[str, object]:
    return {
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}},
        }
    }
