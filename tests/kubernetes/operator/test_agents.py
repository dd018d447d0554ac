"""Reports of agents in pods to an operator on a real API server. The agents are sockets of the test."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from kubernetes_host import JOBS, NAMESPACE, namespaced
from operator_place import OperatorPlace

import strays
from windlass.backends.kubernetes.agents import pod_tokens
from windlass.controlplane.cluster import add_default_account
from windlass.core.model.job import Job, Launcher, RestartPolicy, Role
from windlass.jobs.kubernetes.manifests.trainingjob_manifest import training_job
from windlass.jobs.kubernetes.pods.agent_pods import AUDIENCE
from windlass.wire import CONTROLLER_NAME

pytestmark = pytest.mark.apiserver
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
KILLED = {"type": "failed", "agent_id": "", "code": -9, "reason": "rank 1 (pid 7) killed by SIGKILL"}
FAILED = {"type": "failed", "agent_id": "", "code": 1, "reason": "rank 0 (pid 8) exited with 1"}
HELLO = {"type": "hello", "id": "x", "address": "6.6.6.6", "port": 666, "ranks": 2}
HELLO |= {"generation": 0, "seen": 0, "last": None}
JOB = Job(
    "digits",
    (Role(replicas=2, resources={"gpu": 1}, command=("python", "train.py"), image="example.com/job:1"),),
    launcher=Launcher.AGENT,
    agent="inject",
    restart=RestartPolicy(user_limit=1),
    workdir="",
)


@dataclass
class Agent:
    """A socket that sends the messages of an agent."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def say(self, **message: Any) -> None:
        self.writer.write(json.dumps(message).encode() + b"\n")

    async def hears(self, what: str) -> dict[str, Any]:
        """The next message of this kind."""
        async with asyncio.timeout(strays.TIMEOUT_S):
            while line := await self.reader.readline():
                if (sent := json.loads(line))["type"] == what:
                    return sent
        raise AssertionError(f"hung up before {what}")

    async def is_hung_up_on(self) -> bool:
        async with asyncio.timeout(strays.TIMEOUT_S):
            return await self.reader.read() == b""

    async def stops(self, generation: int) -> None:
        await self.hears("halt")
        self.say(type="stopped", agent_id="", generation=generation, code=0)


@pytest.fixture(autouse=True)
def allow_reviews_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the API server review a pod's token right after a rejected one: tests send several of them."""
    monkeypatch.setattr(pod_tokens, "_REFUSAL_S", 0.0)


async def token_of(place: OperatorPlace, pod: dict[str, Any], audience: str = AUDIENCE) -> str:
    """A token of the pod's service account, as the kubelet requests it for the pod's volume."""
    about = pod["metadata"]
    path = f"/api/v1/namespaces/{about['namespace']}/serviceaccounts/default/token"
    bound = {"apiVersion": "v1", "kind": "Pod", "name": about["name"], "uid": about["uid"]}
    spec = {"audiences": [audience], "boundObjectRef": bound}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return str((await place.api.post(path, request))["status"]["token"])


async def connect(place: OperatorPlace, source: str) -> Agent:
    """A connection from this address."""
    options: Any = {"ssl": place.authority, "server_hostname": CONTROLLER_NAME, "local_addr": (source, 0)}
    return Agent(*await asyncio.open_connection("127.0.0.1", place.agents, **options))


async def call(place: OperatorPlace, name: str, generation: int = 0, **more: Any) -> Agent:
    """The agent of a pod. `more`: fields of its hello."""
    pod = await place.api.get(f"{PODS}/{name}")
    agent = await connect(place, pod["status"]["podIP"])
    hello = {"name": f"{NAMESPACE}/{name}", "token": await token_of(place, pod), "id": f"agent of {name}"}
    hello |= {"port": 29_500, "ranks": 2, "generation": generation, "seen": generation, "last": None}
    agent.say(type="hello", **{**hello, **more})
    return agent


async def two(place: OperatorPlace, job: Job = JOB) -> list[Agent]:
    """The agents of a running job in its first generation."""
    await place.api.post(namespaced(JOBS), training_job(job, "digits", NAMESPACE))
    await place.phase("digits", "Running")
    agents = [await call(place, f"digits-worker-{at}") for at in (0, 1)]
    for agent in agents:
        await agent.hears("start")
    return agents


async def status(place: OperatorPlace, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The job's status, once the condition holds."""
    found: dict[str, Any] = {}
    try:
        async with asyncio.timeout(strays.TIMEOUT_S * 2):
            while True:
                found = (await place.api.get(f"{namespaced(JOBS)}/digits")).get("status") or {}
                if holds(found):
                    return found
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"it still says {found}") from None


async def events(place: OperatorPlace, reason: str) -> list[str]:
    """The job's event with this reason, once it exists; jobs of earlier tests have had the same name."""
    uid = (await place.api.get(f"{namespaced(JOBS)}/digits"))["metadata"]["uid"]
    async with asyncio.timeout(strays.TIMEOUT_S):
        while True:
            items = [each for each in (await place.api.get(EVENTS))["items"] if each["regarding"].get("uid") == uid]
            if found := [each["note"] for each in items if each["reason"] == reason]:
                return found
            await asyncio.sleep(0.1)


def beat(agent: Agent, rank: int, waited: float = 0.0, number: int = 360, **more: Any) -> None:
    """Send a heartbeat. `more`: further fields, and measurements of ranks."""
    behind = [rank, 120, "backward", number, waited, 10.0, 0.0, [120, number, rank, "backward"]]
    values = {name: more.pop(name) for name in list(more) if name not in ("generation", "recovered")}
    measured = {"rank": 0, "generation": 1, "step": 120, "values": values} if values else None
    agent.say(**{"type": "beat", "generation": 1, "behind": behind, "silence": 0, "measured": measured, **more})


def test_members_learn_of_each_other_and_a_foreign_call_gets_no_answer(tell):
    async def story(place: OperatorPlace) -> None:
        await place.api.post(namespaced(JOBS), training_job(JOB, "digits", NAMESPACE))
        await place.phase("digits", "Running")
        stranger = await call(place, "digits-worker-0", token="guessed")  # noqa: S106 - a wrong token
        assert await stranger.is_hung_up_on()
        first = await call(place, "digits-worker-0", port=4711)
        second = await call(place, "digits-worker-1", address="6.6.6.6")
        memberships = [(await agent.hears("start"))["membership"] for agent in (first, second)]
        assert [(each["me"], each["generation"], each["port"]) for each in memberships] == [(0, 1, 4711), (1, 1, 4711)]
        addresses = [(await place.api.get(f"{PODS}/digits-worker-{at}"))["status"]["podIP"] for at in (0, 1)]
        assert [member["address"] for member in memberships[0]["members"]] == addresses
        assert [member["ranks"] for member in memberships[0]["members"]] == [2, 2]

    tell(story)


def test_killed_ranks_restart_in_their_pods_and_are_counted(tell):
    async def story(place: OperatorPlace) -> None:
        agents = await two(place)
        before = (await place.api.get(PODS))["items"]
        agents[1].say(**KILLED, generation=1)
        for agent in agents:
            await agent.stops(1)
        assert [(await agent.hears("start"))["membership"]["generation"] for agent in agents] == [2, 2]

        beat(agents[1], -1, generation=2, recovered={"generation": 2, "seconds": 0.42})
        shown = await status(place, lambda shown: shown.get("recoveries") == 1)
        assert (shown["state"], shown["attempts"], shown["failures"]["infrastructure"]) == ("Running", 1, 1)
        recovery = "recovered in place 1×, last: rank 1 (pid 7) killed by SIGKILL in digits-worker-1, back after 0.42 s"
        assert recovery in shown["conditions"][-1]["message"]
        assert await events(place, "Recovered") == [f"Running: {recovery}"]
        shown = await status(place, lambda shown: shown["training"]["generation"] == 2)
        after = (await place.api.get(PODS))["items"]
        assert {each["metadata"]["uid"] for each in before} == {each["metadata"]["uid"] for each in after}

    tell(story)


def test_a_failure_beyond_the_limit_ends_all_agents_with_its_code(tell):
    async def story(place: OperatorPlace) -> None:
        agents = await two(place)
        agents[0].say(**FAILED, generation=1)
        for agent in agents:
            await agent.stops(1)
        for agent in agents:
            await agent.hears("start")
        agents[0].say(**FAILED, generation=2)
        for agent in agents:
            await agent.stops(2)
        for agent in agents:
            closing = await agent.hears("close")
            assert (closing["code"], closing["reason"]) == (1, "rank 0 (pid 8) exited with 1")
        beat(agents[0], -1, generation=2, recovered={"generation": 2, "seconds": 0.42})
        await status(place, lambda shown: (shown["failures"]["user"], shown.get("recoveries")) == (1, 1))

    tell(story)


def test_measurements_of_ranks_reach_the_status(tell):
    async def story(place: OperatorPlace) -> None:
        agents = await two(place)
        beat(agents[0], 0, loss=1.92345678, samples_per_second=78.0, step_ms=412.5)
        shown = await status(place, lambda shown: shown.get("training", {}).get("step") == 120)
        training = shown["training"]
        assert (training["loss"], training["samplesPerSecond"], training["stepMilliseconds"]) == (1.92346, 78, 412.5)
        assert training["time"].endswith("Z")

        # and the details of the job
        seen = (await place.get("/v1/jobs/digits"))["progress"]
        assert (seen["step"], seen["loss"], seen["behind"]) == (120, 1.92345678, 0)
        (rank,) = seen["ranks"]
        node = (await place.api.get(f"{PODS}/digits-worker-0"))["spec"]["nodeName"]
        assert (rank["rank"], rank["node"], rank["phase"]) == (0, node, "backward")

    tell(story)


def test_a_hang_is_reported_with_rank_and_node_and_ends_in_the_same_pods(tell):
    async def story(place: OperatorPlace) -> None:
        agents = await two(place)
        beat(agents[0], 0, waited=11)
        beat(agents[1], 3, waited=12, number=359)
        for agent in agents:
            assert (await agent.hears("dump_stacks"))["rank"] == 3
            await agent.stops(1)
        assert [(await agent.hears("start"))["membership"]["generation"] for agent in agents] == [2, 2]
        (note,) = await events(place, "Hang")
        node = (await place.api.get(f"{PODS}/digits-worker-1"))["spec"]["nodeName"]
        assert note.startswith(f"digits-worker-1 on node {node}: rank 3 is in backward of step 120 for 12")
        shown = await status(place, lambda shown: "lastHang" in shown.get("training", {}))
        assert shown["training"]["lastHang"] in note

    tell(story)


def test_running_agents_are_taken_over_by_the_new_leader(tell):
    async def story(place: OperatorPlace) -> None:
        await place.api.post(namespaced(JOBS), training_job(replace(JOB), "digits", NAMESPACE))
        await place.phase("digits", "Running")
        agents = [await call(place, f"digits-worker-{at}", generation=5) for at in (0, 1)]
        for agent in agents:
            await agent.hears("welcome")
        agents[0].say(**KILLED, generation=5)
        for agent in agents:
            await agent.stops(5)
        assert [(await agent.hears("start"))["membership"]["generation"] for agent in agents] == [6, 6]

    tell(story)


async def copy_into(place: OperatorPlace, namespace: str, name: str) -> dict[str, Any]:
    """A running pod of another namespace with the name, the labels and the owner of a gang's pod."""
    await place.api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
    await add_default_account(place.api, namespace)
    original = (await place.api.get(f"{PODS}/{name}"))["metadata"]
    about = {each: original[each] for each in ("name", "labels", "ownerReferences")}
    spec = {"containers": [{"name": "main", "image": "example.com/x:1", "command": ["python"]}], "nodeName": "n2"}
    pods = f"/api/v1/namespaces/{namespace}/pods"
    await place.api.post(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec})
    async with asyncio.timeout(strays.TIMEOUT_S):
        while True:
            pod: dict[str, Any] = await place.api.get(f"{pods}/{name}")
            seen = place.world.pods.get(namespace, name)
            if pod["status"].get("podIP") and seen is not None and seen.status.pod_ip:
                return pod
            await asyncio.sleep(0.1)


def test_a_pod_of_another_namespace_takes_no_part_in_a_gang(tell):
    async def story(place: OperatorPlace) -> None:
        await place.api.post(namespaced(JOBS), training_job(JOB, "digits", NAMESPACE))
        await place.phase("digits", "Running")
        copy = await copy_into(place, "intruders", "digits-worker-0")
        victim = await place.api.get(f"{PODS}/digits-worker-0")
        own, there = victim["status"]["podIP"], copy["status"]["podIP"]
        for_the_api = await token_of(place, victim, "https://kubernetes.default.svc")
        tokens = {"its own": await token_of(place, copy), "none": "", "for the API": for_the_api}

        async def is_refused(source: str, namespace: str, token: str) -> bool:
            intruder = await connect(place, source)
            intruder.say(**{**HELLO, "name": f"{namespace}/digits-worker-0", "token": token})
            return await intruder.is_hung_up_on()

        # 1. from its own address, under its own name and under that of the gang's pod
        for namespace in ("intruders", NAMESPACE):
            assert [await is_refused(there, namespace, token) for token in tokens.values()] == [True] * 3
        # 2. the token of the gang's pod is accepted from that pod alone
        assert await is_refused(there, NAMESPACE, await token_of(place, victim))
        # 3. a process behind the address of the gang's pod needs that pod's token
        assert [await is_refused(own, NAMESPACE, token) for token in tokens.values()] == [True] * 3
        (note,) = await events(place, "AgentRefused")
        assert note.startswith("a connection that names digits-worker-0 was refused: it comes from 127.")

        # the gang meets without it, and goes on when it is deleted
        agents = [await call(place, f"digits-worker-{at}") for at in (0, 1)]
        memberships = [(await agent.hears("start"))["membership"] for agent in agents]
        assert all(there not in [member["address"] for member in each["members"]] for each in memberships)
        await place.api.delete("/api/v1/namespaces/intruders/pods/digits-worker-0")
        for agent in agents:
            beat(agent, 0)
            await agent.hears("beat")
        after = await place.api.get(f"{PODS}/digits-worker-0")
        assert after["metadata"]["uid"] == victim["metadata"]["uid"]
        job = await place.get("/v1/jobs/digits")
        assert (job["phase"], job["attempts"]) == ("Running", 1)

    tell(story)


def test_texts_that_a_viewer_reads_in_a_pod_do_not_identify_its_agent(tell):
    async def story(place: OperatorPlace) -> None:
        (first, _) = await two(place)
        pod = await place.api.get(f"{PODS}/digits-worker-0")
        own = pod["status"]["podIP"]
        words = {word for word in re.split(r"[^-\w.+/=]+", json.dumps(pod)) if len(word) >= 16}
        assert any("BEGIN" in json.dumps(each) for each in pod["spec"]["containers"][0]["env"]), "the certificate"

        async def is_refused(word: str) -> bool:
            stranger = await connect(place, own)
            stranger.say(**{**HELLO, "name": f"{NAMESPACE}/digits-worker-0", "token": word})
            return await stranger.is_hung_up_on()

        assert all(await asyncio.gather(*map(is_refused, words)))
        beat(first, 0)
        await first.hears("beat")  # the agent itself is still connected

    tell(story)
