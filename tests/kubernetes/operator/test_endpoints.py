"""The operator's answers over HTTP, with jobs on a real API server."""

from __future__ import annotations

import asyncio
import json

import pytest
from backend_host import Behaviour
from kubernetes_host import JOBS, NAMESPACE, namespaced
from operator_place import OperatorPlace

from windlass.controlplane.cluster import add_default_account
from windlass.core.model.job import Job, Role
from windlass.jobs.kubernetes.manifests.trainingjob_manifest import training_job

pytestmark = pytest.mark.apiserver


def ids(answer: dict) -> list[str]:
    return [each["id"] for each in answer["jobs"]]


def test_queries_have_the_same_answers_as_on_a_laptop(tell):
    async def story(place: OperatorPlace) -> None:
        await place.submit("big", gpus=2, replicas=2)
        big = await place.phase("big", "Running")
        await place.submit("next")
        await place.until("/v1/jobs/next", lambda job: job["position"] == 1)

        # 1. the overview
        ping = await place.get("/v1/ping")
        assert (ping["kind"], ping["nodes"], ping["capacity"]["gpu"]) == ("operator", 2, 4)
        assert (ping["holding"], ping["waiting"], ping["trouble"]) == (1, 1, "")
        assert ping["cluster"].startswith("2 nodes of https://")

        # 2. one job, with its pods
        assert (big["id"], big["name"], big["user"]) == ("default/big", "big", "namespace:default")
        assert set(big["spec"]["roles"][0]["env"].values()) <= {"(hidden)"}
        assert sorted(big["nodes"]) == ["n1", "n2"]
        assert [(task["pod"], task["rank"], task["code"]) for task in big["tasks"]] == [
            ("big-worker-0", 0, None),
            ("big-worker-1", 1, None),
        ]
        assert sorted(task["node"] for task in big["tasks"]) == ["n1", "n2"]
        assert [step["after"] for step in big["transitions"]] == ["Created", "Queued", "Admitted", "Running"]

        # 3. the queue, and explanations
        queue = (await place.get("/v1/jobs"))["jobs"]
        assert [(job["id"], job["phase"], job["position"]) for job in queue] == [
            ("default/big", "Running", 0),
            ("default/next", "Queued", 1),
        ]
        assert ids(await place.get("/v1/jobs?phase=Queued")) == ["default/next"]
        why = await place.get("/v1/jobs/default/next/why")
        assert (why["job"]["reason"], why["job"]["id"]) == ("WaitingForQuota", "default/next")
        assert {node["node"]: node["cause"] for node in why["explanation"]["nodes"]}.keys() == {"n1", "n2"}
        assert ids(await place.get("/v1/why")) == ["default/next"]

        # 4. nodes, queues, shares, the snapshot and the last plan
        nodes = (await place.get("/v1/nodes"))["nodes"]
        assert [(node["name"], node["used"]["gpu"], node["jobs"][0]["id"]) for node in nodes] == [
            ("n1", 2, "default/big"),
            ("n2", 2, "default/big"),
        ]
        [default] = (await place.get("/v1/queues"))["queues"]
        assert (default["name"], default["used"]["gpu"], default["waiting"], default["running"]) == ("default", 4, 1, 1)
        assert [row["queue"] for row in (await place.get("/v1/shares"))["queues"]] == ["default"]
        assert (await place.get("/v1/snapshot?planned=1"))["plan"] is not None
        assert (await place.get("/v1/reservations")) == {"reservations": []}

    tell(story)


def test_a_job_with_a_missing_volume_is_listed_with_the_reason(tell):
    async def story(place: OperatorPlace) -> None:
        why = "there is no PersistentVolumeClaim data in namespace default; create it"
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
        manifest = training_job(Job("held", (Role(command=("true",), image="a:1"),), workdir=""), "held", NAMESPACE)
        manifest["spec"]["pod"] = {"spec": {"volumes": [volume]}}
        await place.api.post(namespaced(JOBS), manifest)
        [line] = (await place.until("/v1/jobs", lambda answer: answer["jobs"]))["jobs"]
        assert (line["id"], line["phase"], line["reason"]) == ("default/held", "Created", "Waiting")
        assert line["message"] == why
        assert (await place.get("/v1/why"))["jobs"][0]["message"] == why
        assert (await place.get("/v1/jobs/held"))["message"] == why
        assert (await place.get("/v1/jobs/held/why"))["job"] == line
        assert await state(place, "held", "Created")

        cancel = {"metadata": {"annotations": {"windlass.dev/cancel": "ada"}}}
        await place.api.patch(f"{namespaced(JOBS)}/held", cancel)
        assert (await place.phase("held", "Failed"))["message"] == "cancelled by ada"
        assert await state(place, "held", "Cancelled")

    tell(story)


async def state(place: OperatorPlace, name: str, expected: str) -> bool:
    """Wait until `kubectl get` shows this state."""
    while (await place.api.get(f"{namespaced(JOBS)}/{name}")).get("status", {}).get("state") != expected:  # noqa: ASYNC110 - no event to wait for
        await asyncio.sleep(0.1)
    return True


def test_a_deleted_job_stays_in_history_with_its_attempts(tell):
    async def story(place: OperatorPlace) -> None:
        await place.submit("works", Behaviour.SUCCEED)
        await place.submit("breaks", Behaviour.FAIL)
        await place.phase("works", "Succeeded")
        before = await place.phase("breaks", "Failed")
        for name in ("works", "breaks"):
            await place.delete(name)
        await place.until("/v1/ping", lambda _: not list(place.world.jobs))

        story = await place.get("/v1/jobs/default:breaks")
        assert story == before
        assert (story["exit_code"], story["attempts"], story["transitions"][-1]["after"]) == (3, 1, "Failed")
        [task] = story["tasks"]
        assert (task["pod"], task["code"]) == ("breaks-worker-0", 3)
        assert "exited with code 3" in task["detail"]
        assert sorted(ids(await place.get("/v1/history"))) == ["default/breaks", "default/works"]
        assert ids(await place.get("/v1/history?name=works&user=namespace:default")) == ["default/works"]
        assert ids(await place.get("/v1/jobs")) == []
        assert ids(await place.get("/v1/jobs?phase=Failed")) == ["default/breaks"]
        assert ids(await place.get("/v1/jobs?all=1&limit=1")) != []

    tell(story)


def test_a_job_deleted_while_running_is_shown_as_cancelled(tell):
    async def story(place: OperatorPlace) -> None:
        await place.submit("digits", replicas=2)
        await place.phase("digits", "Running")
        await place.delete("digits")
        await place.until("/v1/history", lambda answer: answer["jobs"])
        [line] = (await place.get("/v1/history"))["jobs"]
        assert (line["id"], line["phase"], line["reason"]) == ("default/digits", "Failed", "Cancelled")
        story = await place.get("/v1/jobs/digits")
        assert [(task["pod"], task["generation"]) for task in story["tasks"]] == [
            ("digits-worker-0", 1),
            ("digits-worker-1", 1),
        ]
        assert ids(await place.get("/v1/jobs?phase=Cancelled")) == ["default/digits"]

    tell(story)


def test_another_job_of_the_same_name_has_a_history_of_its_own(tell):
    async def story(place: OperatorPlace) -> None:
        await place.submit("digits", Behaviour.FAIL)
        await place.phase("digits", "Failed")
        await place.delete("digits")
        await place.until("/v1/ping", lambda _: not list(place.world.jobs))
        await place.submit("digits", Behaviour.SUCCEED)
        latest = await place.phase("digits", "Succeeded")
        assert [step["after"] for step in latest["transitions"]][-1] == "Succeeded"
        assert latest["transitions"][0]["after"] == "Created"
        ended = (await place.get("/v1/history?name=digits"))["jobs"]
        assert [job["phase"] for job in ended] == ["Succeeded", "Failed"]

    tell(story)


def test_an_ambiguous_name_is_refused_with_the_candidates(tell):
    async def story(place: OperatorPlace) -> None:
        await place.api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
        await add_default_account(place.api, "team")
        await place.submit("digits")
        path = "/apis/windlass.dev/v1alpha1/namespaces/{}/trainingjobs"
        manifest = await place.api.get(f"{path.format('default')}/digits")
        copied = {"apiVersion": manifest["apiVersion"], "kind": "TrainingJob", "spec": manifest["spec"]}
        await place.api.post(path.format("team"), {**copied, "metadata": {"name": "digits"}})
        await place.phase("team/digits", "Running")
        status, answer = await place.ask("/v1/jobs/digits")
        assert status == 404
        assert answer["error"]["message"] == "'digits' may be any of 2 jobs: default/digits, team/digits"
        status, answer = await place.ask("/v1/jobs/team/digit")
        assert "did you mean team/digits" in answer["error"]["message"]

    tell(story)


def test_events_are_sent_as_they_happen(tell):
    async def story(place: OperatorPlace) -> None:
        await place.submit("digits", Behaviour.SUCCEED)
        await place.until("/v1/jobs/digits", lambda job: job["id"])
        async with place.session.get("/v1/events?job=digits") as answer:
            lines = [line async for line in answer.content]
        events = [json.loads(line[6:]) for line in lines if line.startswith(b"data: ")]
        assert [e["after"] for e in events if e["type"] == "transition"][-1] == "Succeeded"
        assert [e["type"] for e in events][-2:] == ["end", "all ended"]

    tell(story)


def test_every_action_is_refused_unread(tell):
    async def story(place: OperatorPlace) -> None:
        submission = {"job": {"name": "digits", "roles": [{"command": ["true"]}]}}
        for method, path, body in (
            ("POST", "/v1/jobs", {"submissions": [submission]}),
            ("POST", "/v1/jobs/default/digits/cancel", {}),
            ("POST", "/v1/suspend", {"jobs": ["digits"]}),
            ("POST", "/v1/reservations", {}),
            ("DELETE", "/v1/reservations/night", None),
            ("POST", "/v1/down", {}),
        ):
            assert await place.ask(path, method, body) == (405, "this port answers GET and HEAD\n")

    tell(story)


def test_probes_and_metrics_on_the_same_port(tell):
    async def story(place: OperatorPlace) -> None:
        await place.submit("big", gpus=2, replicas=2)
        await place.phase("big", "Running")
        await place.submit("next")
        await place.until("/v1/jobs/next", lambda job: job["position"] == 1)
        assert await place.get("/healthz") == await place.get("/readyz") == "ok\n"
        lines = (await place.get("/metrics")).splitlines()
        for line in (
            "windlass_leader 1.0",
            'windlass_jobs{phase="Running"} 1',
            'windlass_pending_gangs{reason="WaitingForQuota"} 1',
            'windlass_queue_waiting{queue="default"} 1',
            "windlass_pods_bound_total 2.0",
            "windlass_bind_seconds_count 2.0",
            "windlass_job_wait_seconds_count 1.0",
            'windlass_queue_size{name="logs to read"} 0.0',
            "windlass_gang_start_seconds_count 1.0",
            "windlass_nodes 2",
            'windlass_watches_total{resource="pods"} 1.0',
            "windlass_history_lost_total 0.0",
        ):
            assert line in lines
        assert any(line.startswith('windlass_job_attempt{job_id="') and "/big" in line for line in lines)
        assert any(line.startswith('windlass_api_requests_total{code="201",verb="POST"}') for line in lines)

    tell(story)


def test_a_follower_names_the_leader(tell):
    async def story(place: OperatorPlace) -> None:
        place.endpoints.unready = "the watches have not listed everything yet"
        place.endpoints.leader = lambda: "windlass-1_7"
        await place.endpoints.follow()
        status, answer = await place.ask("/v1/jobs")
        assert (status, answer["leader"]) == (503, "windlass-1_7")
        assert answer["error"] == {
            "code": "no_daemon",
            "message": "this replica of the operator does not lead",
            "fix": "ask windlass-1_7, which leads",
        }
        assert await place.ask("/readyz") == (503, "the watches have not listed everything yet\n")
        assert "windlass_leader 0.0" in (await place.get("/metrics")).splitlines()

    tell(story)
