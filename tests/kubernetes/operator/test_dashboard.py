"""The dashboard of a cluster: sign-in, what users of two namespaces see, and what is refused, on a real API server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from backend_host import Behaviour
from cli.cluster_terminal import WINDLASS
from dashboard_place import EDIT, JOBS, NAMESPACES, VIEW, DashboardPlace, Visitor, dashboard, names, until
from node_logs import logs_of_nodes
from operator_place import created

import strays
from windlass.controlplane.cluster import ControlPlane
from windlass.jobs.kubernetes.query_api import SERVICE
from windlass.jobs.kubernetes.schedules.cron_training_job import read, run_object
from windlass.server.operator.dashboard.port import DashboardOptions
from windlass.server.operator.dashboard.trusted_proxy import TrustedProxy

pytestmark = pytest.mark.apiserver

SCHEDULES = "/apis/windlass.dev/v1alpha1/namespaces/{}/crontrainingjobs"
Story = Callable[[DashboardPlace], Awaitable[None]]
Tell = Callable[..., None]
PAGES = ("/", "/queue", "/nodes", "/share", "/history", "/jobs/team-a/big")
VIEWS = (
    "overview",
    "queue",
    "queue?all=1",
    "queue?all=1&limit=999999999999",
    "time_axis",
    "history",
    "nodes",
    "node_use",
    "share",
    "choices",
    "schedules",
    "node/n1",
)
OF_JOB = ("job", "why", "findings", "checkpoints", "slowness", "metrics")


@pytest.fixture
def tell(apiserver: ControlPlane, tmp_path: Path) -> Tell:
    def run(story: Story, options: DashboardOptions | None = None) -> None:
        async def told() -> None:
            async with asyncio.timeout(strays.TIMEOUT_S * 4), dashboard(apiserver, tmp_path, options) as place:
                await story(place)

        asyncio.run(told())

    return run


async def two_teams(place: DashboardPlace) -> None:
    """Ann may view team-a, with a failed and a running job; Bob may view team-b, where one job waits."""
    await place.grant(VIEW, "team-a", "ann")
    await place.grant(VIEW, "team-b", "bob")
    await place.submit("team-a", "secret-plan", Behaviour.FAIL)
    await place.place.phase("team-a/secret-plan", "Failed")
    for name in ("big", "wide"):
        await place.submit("team-a", name, Behaviour.RUN, gpus=2)
        await place.place.phase(f"team-a/{name}", "Running")
    await place.submit("team-b", "mine", Behaviour.RUN)
    await place.place.until("/v1/jobs/team-b/mine", lambda job: job["phase"] == "Queued")


def test_a_user_sees_overview_queue_and_jobs_of_the_own_namespaces_only(tell: Tell) -> None:
    async def story(place: DashboardPlace) -> None:
        await two_teams(place)
        ann, bob = await place.signed_in("team-a", "ann"), await place.signed_in("team-b", "bob")

        # 1. Ann sees her jobs
        assert 'id="main"' in (await ann.get("/")).text
        assert 'id="main"' in (await ann.get("/queue?all=1")).text
        assert names((await ann.read("/api/queue"))["jobs"]) == ["team-a/big", "team-a/wide"]
        assert names((await ann.read("/api/history"))["jobs"]) == ["team-a/secret-plan"]
        overview = await ann.read("/api/overview")
        assert "team-a/secret-plan" in {each["name"] for each in overview["findings"]}
        assert overview["queues"] == [{"queue": "default", "running": 2, "waiting": 0, "suspended": 0}]
        assert (await ann.read("/api/job/team-a/secret-plan"))["phase"] == "Failed"
        assert [row["name"] for row in (await ann.read("/api/time_axis"))["rows"]] == ["team-a/big", "team-a/wide"]
        for view in OF_JOB:
            assert await ann.read(f"/api/{view}/team-a/big")
        lines = (await until(lambda: lines_of(ann, "team-a/secret-plan")))[0]
        assert lines[:3] == [0, 0, "out"]
        past = await until(lambda: past_of(ann, "n1"))
        assert {row["job_id"] for row in past} <= {"team-a/big", "team-a/wide", "team-a/secret-plan"}

        # 2. Bob sees nothing of them: no row, no name, no count
        answers = [await bob.read(f"/api/{view}") for view in VIEWS]
        answers.append(await bob.read("/api/queue?search=secret-plan"))
        answers += [await bob.read(f"/api/{view}/team-b/mine") for view in OF_JOB]
        text = json.dumps(answers)
        assert "team-a" not in text
        assert "secret-plan" not in text
        found = dict(zip(VIEWS, answers, strict=False))
        assert (names(found["queue"]["jobs"]), found["queue"]["total"]) == (["team-b/mine"], 1)
        assert found["queue?all=1"]["total"] == 1
        assert found["history"] == {"jobs": [], "total": 0, "is_cut": False}
        assert found["overview"]["queues"] == [{"queue": "default", "running": 0, "waiting": 1, "suspended": 0}]
        assert found["node_use"] == {"nodes": {}, "left_out": 0}
        assert found["node/n1"]["past"] == []

        # 3. and is refused by name, whether or not there is such a job
        for job in ("team-a/big", "team-a/never"):
            for view in OF_JOB:
                answer = await bob.get(f"/api/{view}/{job}")
                assert (answer.status, "may not get jobs" in answer.text) == (403, True), answer
                assert "ClusterRole view in namespace team-a" in answer.text
            assert (await bob.get(f"/api/jobs/{job}/log")).status == 403
        for job in ("big", "team-a:big", "..%2Fteam-a%2Fbig", "team-b/../team-a/big"):
            answer = await bob.get(f"/api/job/{job}")
            assert answer.status in (400, 403, 404)
            assert "secret-plan" not in answer.text

        # 4. the same question of two users has two answers, also from the cache
        for _ in range(2):
            assert names((await bob.read("/api/queue"))["jobs"]) == ["team-b/mine"]
            assert names((await ann.read("/api/queue"))["jobs"]) == ["team-a/big", "team-a/wide"]
        tag = (await ann.get("/api/queue")).headers["ETag"]
        assert (await bob.get("/api/queue", **{"If-None-Match": tag})).status == 200

    tell(story)


def test_a_user_sees_the_schedules_of_the_own_namespaces_only(tell: Tell) -> None:
    async def story(place: DashboardPlace) -> None:
        await place.grant(VIEW, "team-a", "ann")
        await place.grant(VIEW, "team-b", "bob")
        await place.grant(EDIT, "team-b", "bob")
        ann, bob = await place.signed_in("team-a", "ann"), await place.signed_in("team-b", "bob")
        for team in ("team-a", "team-b"):
            job = {"command": [Behaviour.SUCCEED.value], "image": "example.com/job:1"}
            spec = {"schedule": "0 3 * * *", "jobTemplate": {"spec": job}, "concurrencyPolicy": "Queue"}
            manifest = {"apiVersion": "windlass.dev/v1alpha1", "kind": "CronTrainingJob", "spec": spec}
            about = {"name": f"of-{team}", "annotations": {"windlass.dev/user": "carol"}}
            await place.place.api.post(SCHEDULES.format(team), {**manifest, "metadata": about})
        [row] = await until(lambda: schedules_of(ann))
        assert (row["id"], row["policy"], row["runs"]) == ("team-a/of-team-a", "queue", [])
        assert row["next"] is not None
        assert row["user"] == "", "no admission policy has checked the annotation"
        assert "team-b" not in json.dumps(await ann.read("/api/schedules"))

        # one run lives, and another one has ended
        [seen] = await until(lambda: schedules_of(bob))
        assert seen["id"] == "team-b/of-team-b"
        found = await place.place.api.get(f"{SCHEDULES.format('team-b')}/of-team-b")
        for name, behaviour in (("first", Behaviour.SUCCEED), ("second", Behaviour.RUN)):
            made = run_object(read(found), name)
            made["spec"] = {**made["spec"], "command": [behaviour.value]}
            await place.place.api.post(JOBS.format("team-b"), made)
        await place.place.phase("team-b/first", "Succeeded")

        async def last_runs() -> list[str]:
            return [each["id"] for each in (await schedules_of(bob))[0]["runs"]]

        assert await until(last_runs) == ["team-b/first"]
        views = (await bob.read("/api/session"))["views"]
        assert "schedules" in views
        assert {"simulation", "workshop"}.isdisjoint(views)
        for team in ("team-a", "team-b"):
            await place.place.api.delete(f"{SCHEDULES.format(team)}/of-{team}")

        async def is_gone() -> bool:
            return await schedules_of(ann) == []

        assert await until(is_gone)

    tell(story)


async def schedules_of(visitor: Visitor) -> list[dict[str, Any]]:
    return list((await visitor.read("/api/schedules"))["schedules"])


async def lines_of(visitor: Visitor, job: str) -> list[list[object]]:
    return list((await visitor.read(f"/api/jobs/{job}/log"))["lines"])


async def past_of(visitor: Visitor, node: str) -> list[dict[str, object]]:
    return list((await visitor.read(f"/api/node/{node}"))["past"])


def test_a_stranger_gets_the_sign_in_page_and_nothing_else(tell: Tell) -> None:
    async def story(place: DashboardPlace) -> None:
        stranger = place.visitor()
        for page in PAGES:
            answer = await stranger.get(page)
            assert (answer.status, answer.headers["Location"]) == (303, f"/login?to={page}")
        for view in (*VIEWS, "stream", "session", "simulation", "job/team-a/big"):
            assert (await stranger.get(f"/api/{view}")).status == 401
        page = await stranger.get("/login")
        assert (page.status, "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]) == (200, True)
        assert (await stranger.get("/assets/signin.js")).status == 200
        assert (await stranger.get("/assets/app.js")).status == 303
        assert (await stranger.get("/api/queue", Cookie="__Host-windlass=guess")).status == 401

        # tokens that the API server does not accept
        good = await place.token("team-a", "ann")
        other = await place.token("team-a", "ann", audiences=["vault"])
        for wrong in ("", "x", "a.b.c", good[:-4] + "AAAA", other, "a" * 30_000):
            answer = await stranger.sign_in(wrong)
            assert (answer.status, "kubectl create token" in answer.text) == (401, True), wrong
        # names without proof, requests of other sites, and bodies that are too large
        assert (await stranger.get("/api/queue", **{"X-Remote-User": "ann"})).status == 401
        assert (await stranger.get("/api/queue", Authorization=f"Bearer {good}")).status == 401
        assert (await stranger.sign_in(good, Origin="https://evil.example")).status == 403
        assert (await stranger.request("POST", "/login", {"token": "a" * 70_000})).status == 413
        assert (await stranger.request("PUT", "/login", {"token": good})).status == 405

        # a session is for this host, over TLS, and no script can read it
        answer = await stranger.sign_in(good)
        cookie = answer.headers["Set-Cookie"].lower()
        assert cookie.startswith("__host-windlass=")
        assert all(f"; {each}" in cookie for each in ("secure", "httponly", "samesite=strict", "path=/"))

    tell(story)


def test_the_command_line_opens_a_link_that_works_once(tell: Tell, apiserver: ControlPlane, tmp_path: Path) -> None:
    async def story(place: DashboardPlace) -> None:
        await place.token("team-a", "ann")
        port = place.url.rpartition(":")[2]
        kubectl = tmp_path / "kubectl"
        kubectl.write_text(f"#!/bin/sh\necho $* >&2\necho 'Forwarding from 127.0.0.1:{port} -> 8444'\nexec sleep 60\n")
        kubectl.chmod(0o755)
        about = {**os.environ, "KUBECONFIG": str(await apiserver.service_account("team-a", "ann"))}
        about |= {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        command = await asyncio.create_subprocess_exec(
            WINDLASS, "ui", "--on", "tests", "--no-browser", env=about, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert command.stdout is not None
        assert command.stderr is not None
        link = (await command.stdout.readline()).decode().strip()
        said = (await command.stderr.readline()).decode().split()
        command.send_signal(signal.SIGINT)
        await command.wait()
        assert said == f"--context tests port-forward -n windlass-system service/{SERVICE} 7420:8444".split()
        assert link.startswith(f"{place.url}/login?code=")
        visitor, path = place.visitor(), link.removeprefix(place.url)
        answer = await visitor.get(path)
        assert (answer.status, "Set-Cookie" in answer.headers) == (200, False)
        code = {"code": path.rpartition("=")[2]}
        assert (await visitor.request("POST", "/login", code)).json == {"user": "system:serviceaccount:team-a:ann"}
        assert (await visitor.request("POST", "/login", code, Origin="https://evil.example")).status == 403
        answer = await visitor.request("POST", "/login", {**code, "confirmed": True})
        assert answer.status == 204
        visitor.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        assert (await visitor.read("/api/session"))["user"] == "system:serviceaccount:team-a:ann"
        assert (await visitor.request("POST", "/login", {**code, "confirmed": True})).status == 401

    tell(story)


def test_lines_of_running_pods_are_for_users_who_may_read_pods(tell: Tell, apiserver: ControlPlane) -> None:
    printed = ["2026-11-27T05:00:00.000001Z epoch 1", "no time", "2026-11-27T05:00:01.5Z <b>epoch 2</b>"]

    async def story(place: DashboardPlace) -> None:
        async with logs_of_nodes(apiserver, place.place.api, lambda _pod: "\n".join(printed) + "\n"):
            await place.grant(VIEW, "team-a", "fay")
            await place.submit("team-a", "run", Behaviour.RUN)
            await place.place.phase("team-a/run", "Running")
            fay = await place.signed_in("team-a", "fay")

            # 1. the role of jobs alone has no logs of pods
            found = await fay.read("/api/jobs/team-a/run/log")
            assert (found["lines"], found["attempts"]) == ([], [])

            # 2. with them, each line comes once
            await place.grant("system:aggregate-to-view", "team-a", "fay")
            lines = await until(lambda: lines_of(fay, "team-a/run"))
            assert [line[1:] for line in lines] == [[0, "out", "epoch 1"], [0, "out", "<b>epoch 2</b>"]]
            offsets = (await fay.read("/api/jobs/team-a/run/log"))["offsets"]
            printed.append("2026-11-27T05:00:02Z epoch 3")
            path = f"/api/jobs/team-a/run/log?after={quote(json.dumps(offsets))}"
            new = await until(lambda: new_of(fay, path))
            assert [line[3] for line in new] == ["epoch 3"]

    tell(story)


async def new_of(visitor: Visitor, path: str) -> list[list[object]]:
    return list((await visitor.read(path))["lines"])


def test_a_session_ends_by_time_by_sign_out_and_with_its_token(tell: Tell) -> None:
    async def story(place: DashboardPlace) -> None:
        ann = await place.signed_in("team-a", "ann")
        assert (await ann.request("POST", "/logout")).status == 403
        again = await place.signed_in("team-a", "ann")
        assert (await again.request("POST", "/logout", **{"X-Windlass-CSRF": again.csrf})).status == 204
        assert (await again.get("/api/queue")).status == 401
        assert (await ann.get("/api/queue")).status == 200
        place.clock[0] = 8 * 3_600_000
        assert (await ann.get("/api/queue")).status == 401

        late = await place.signed_in("team-b", "late")
        await place.place.api.delete("/api/v1/namespaces/team-b/serviceaccounts/late")
        await until(lambda: is_refused(late))

    tell(story)


async def is_refused(visitor: Visitor) -> bool:
    return (await visitor.get("/api/queue")).status == 401


def test_a_withdrawn_right_ends_the_stream_and_hides_the_jobs(tell: Tell) -> None:
    async def story(place: DashboardPlace) -> None:
        await place.grant(VIEW, "team-a", "cat")
        await place.submit("team-a", "big", Behaviour.RUN)
        await place.place.phase("team-a/big", "Running")
        cat = await place.signed_in("team-a", "cat")
        await until(lambda: rows_of(cat))
        headers = {"Cookie": cat.cookie}
        async with cat.session.get(f"{cat.url}/api/stream", headers=headers) as stream:
            assert stream.status == 200
            assert b"event: version" in await stream.content.readuntil(b"data: ")
            await place.withdraw(VIEW, "cat", "team-a")
            async with asyncio.timeout(strays.TIMEOUT_S * 2):  # reviews and audiences live for 10 s each
                while await stream.content.readany():
                    pass
        assert names((await cat.read("/api/queue"))["jobs"]) == []
        assert (await cat.get("/api/job/team-a/big")).status == 403

    tell(story)


async def rows_of(visitor: Visitor) -> list[str]:
    return names((await visitor.read("/api/queue"))["jobs"])


def test_changes_need_the_verb_the_token_of_the_page_and_the_option(tell: Tell) -> None:
    async def story(place: DashboardPlace) -> None:
        await place.grant(VIEW, "team-a", "dan")
        await place.grant(EDIT, "team-a", "eve")
        await place.grant(VIEW, "team-a", "eve")
        await place.submit("team-a", "run", Behaviour.RUN)
        await place.place.phase("team-a/run", "Running")
        dan, eve = await place.signed_in("team-a", "dan"), await place.signed_in("team-a", "eve")

        # 1. requests without the token of the page, or of other sites
        assert (await eve.act("suspend", "team-a/run", **{"X-Windlass-CSRF": "guess"})).status == 403
        assert (await eve.act("suspend", "team-a/run", Origin="https://evil.example")).status == 403
        assert (await eve.request("POST", "/api/jobs/team-a/run/suspend", {"x": "a" * 70_000})).status == 413

        # 2. a user without the verb
        answer = await dan.act("suspend", "team-a/run")
        assert (answer.status, answer.json["error"]["message"]) == (
            403, "user system:serviceaccount:team-a:dan may not patch trainingjobs.windlass.dev in namespace team-a",
        )  # fmt: skip
        assert answer.json["error"]["fix"] == "ask for a RoleBinding to the ClusterRole edit in namespace team-a"
        told = (await dan.read("/api/refusals/team-a/run"))["change"]
        assert told == f"{answer.json['error']['message']}: {answer.json['error']['fix']}"
        assert await eve.read("/api/refusals/team-a/run") == {}

        # 3. a user with it; the API server sees the change as the user's own
        assert (await eve.act("reboot", "team-a/run")).status == 400
        assert (await eve.act("suspend", "team-a/run")).json == {"jobs": [{"id": "team-a/run"}]}
        await place.place.phase("team-a/run", "Suspended")
        assert (await eve.act("suspend", "team-a/run")).status == 409
        assert (await eve.act("cancel", "team-a/run")).status == 200
        await place.place.phase("team-a/run", "Failed")
        found = await place.place.api.get(f"{JOBS.format('team-a')}/run")
        assert "system:serviceaccount:team-a:eve" in found["metadata"]["annotations"].values()

    tell(story, DashboardOptions(0, allows_actions=True))


def test_a_priority_is_changed_with_the_rights_of_the_user(tell: Tell) -> None:
    async def story(place: DashboardPlace) -> None:
        for account, role in (("dan", VIEW), ("eve", VIEW), ("eve", EDIT)):
            await place.grant(role, "team-a", account)
        for name in ("one", "two"):
            await place.submit("team-a", name, Behaviour.RUN, gpus=2)
            await place.place.phase(f"team-a/{name}", "Running")
        await place.submit("team-a", "wait", Behaviour.RUN, gpus=2)
        await place.place.until("/v1/jobs/team-a/wait", lambda job: job["phase"] == "Queued")
        dan, eve = await place.signed_in("team-a", "dan"), await place.signed_in("team-a", "eve")

        # 1. a waiting job gets any number that its queue allows
        assert (await dan.act("priority", "team-a/wait", {"priority": -4})).status == 403
        assert (await eve.act("priority", "team-a/wait", {"priority": "high"})).status == 400
        answer = await eve.act("priority", "team-a/wait", {"priority": 7})
        assert (answer.status, "lower it" in answer.text) == (422, True), answer
        assert (await eve.act("priority", "team-a/wait", {"priority": -4})).json == {"jobs": [{"id": "team-a/wait"}]}
        await place.place.until("/v1/jobs/team-a/wait", lambda job: job["priority"] == -4)

        # 2. one that holds nodes a lower one
        answer = await eve.act("priority", "team-a/one", {"priority": 1})
        assert (answer.status, "can only become lower than 0" in answer.text) == (409, True), answer
        assert (await eve.act("priority", "team-a/one", {"priority": -2})).status == 200
        await place.place.until("/v1/jobs/team-a/one", lambda job: job["priority"] == -2)

        # 3. the number of a job with a PriorityClass would have no effect
        of_class = {"spec": {"priorityClassName": "urgent"}}
        await place.submit("team-a", "classed", Behaviour.RUN, pod=of_class)
        await place.place.until("/v1/jobs/team-a/classed", lambda job: job)
        answer = await eve.act("priority", "team-a/classed", {"priority": 1})
        assert (answer.status, "PriorityClass urgent" in answer.text, "kubectl edit" in answer.text) == (
            409,
            True,
            True,
        )

    tell(story, DashboardOptions(0, allows_actions=True))


def test_an_ended_job_is_run_again_as_a_new_object_of_the_user(tell: Tell) -> None:
    async def story(place: DashboardPlace) -> None:
        for account, role in (("dan", VIEW), ("eve", VIEW), ("eve", EDIT)):
            await place.grant(role, "team-a", account)
        kept = {"WINDLASS_CHECKPOINTS": "/data/digits"}
        await place.grant("system:aggregate-to-edit", "team-a", "eve")
        code = {"metadata": {"name": "code-1"}, "data": {"x": "y"}}
        await created(place.place.api, f"{NAMESPACES}/team-a/configmaps", code)
        pod = {"spec": {"volumes": [{"name": "code", "configMap": {"name": "code-1"}}]}}
        await place.submit("team-a", "digits", Behaviour.RUN, env=kept, suspend=True, pod=pod)
        await place.place.phase("team-a/digits", "Suspended")
        dan, eve = await place.signed_in("team-a", "dan"), await place.signed_in("team-a", "eve")
        assert (await eve.act("rerun", "team-a/digits")).status == 409
        assert (await eve.act("cancel", "team-a/digits")).status == 200
        await place.place.phase("team-a/digits", "Failed")

        # 1. what both runs share is said before
        found = await dan.read("/api/rerun/team-a/digits")
        assert found == {"is_object": True, "checkpoints": "/data/digits"}
        found = await dan.read("/api/checkpoints/team-a/digits")
        assert (found["place"], found["is_folder"], found["newest_at"]) == ("/data/digits", True, None)

        # 2. the new object is the user's own, and starts
        assert "may not create trainingjobs" in (await dan.act("rerun", "team-a/digits")).text
        (again,) = (await eve.act("rerun", "team-a/digits")).json["ids"]
        assert again.startswith("team-a/digits-")
        await place.place.phase(again, "Running")
        about = (await place.place.api.get(f"{JOBS.format('team-a')}/{again.removeprefix('team-a/')}"))["metadata"]
        assert about["annotations"]["windlass.dev/rerun-of"] == "team-a/digits"
        assert about["annotations"]["windlass.dev/user"] == "system:serviceaccount:team-a:eve"
        assert "windlass.dev/cancel" not in about["annotations"]
        code = await place.place.api.get(f"{NAMESPACES}/team-a/configmaps/code-1")
        assert [each["uid"] for each in code["metadata"]["ownerReferences"]] == [about["uid"]]

        # 3. another one takes its name from the first
        assert (await eve.act("cancel", again)).status == 200
        await place.place.phase(again, "Failed")
        (third,) = (await eve.act("rerun", again)).json["ids"]
        assert len(third) == len(again)

    tell(story, DashboardOptions(0, allows_actions=True))


def test_a_dashboard_only_reads_unless_its_operator_allows_more(tell: Tell) -> None:
    async def story(place: DashboardPlace) -> None:
        await place.grant(EDIT, "team-a", "eve")
        eve = await place.signed_in("team-a", "eve")
        assert (await eve.read("/api/session"))["may_act"] is False
        answer = await eve.act("cancel", "team-a/run")
        assert (answer.status, answer.text.strip()) == (
            403, "this dashboard only reads: its operator runs without --dashboard-actions",
        )  # fmt: skip
        assert (await eve.get("/api/simulation")).status == 400

    tell(story)


def test_a_trusted_proxy_names_users_but_none_of_kubernetes(tell: Tell, apiserver: ControlPlane) -> None:
    folder = apiserver.folder
    pair = folder / "front-proxy-client.crt", folder / "front-proxy-client.key"

    async def story(place: DashboardPlace) -> None:
        name = {"X-Remote-User": "oidc:zoe", "X-Remote-Group": "oidc:ml, oidc:all"}
        proxy, stranger = place.visitor(pair), place.visitor()
        assert (await proxy.get("/api/queue")).status == 401
        about = (await proxy.get("/api/session", **name)).json
        assert (about["user"], about["may_act"]) == ("oidc:zoe", False)
        assert (await proxy.get("/api/queue", **name)).json["jobs"] == []
        for reserved in ("system:admin", "system:serviceaccount:team-a:ann"):
            answer = await proxy.get("/api/queue", **{"X-Remote-User": reserved})
            assert (answer.status, "Kubernetes' own" in answer.text) == (403, True)
        masters = {**name, "X-Remote-Group": "oidc:ml,system:masters"}
        assert (await proxy.get("/api/queue", **masters)).status == 403
        assert (await stranger.get("/api/queue", **name)).status == 401
        assert (await proxy.request("POST", "/api/jobs/team-a/x/cancel", {}, **name)).status == 403

    authority = folder / "front-proxy-ca.crt"
    tell(story, DashboardOptions(0, proxy=TrustedProxy((ip_network("127.0.0.0/8"),), authority)))
