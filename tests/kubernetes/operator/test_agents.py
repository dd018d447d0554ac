"""Reports of agents in pods to an operator on a real API server. The agents are sockets of the test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from kubernetes_host import JOBS, NAMESPACE, namespaced
from operator_place import OperatorPlace

import strays
from windlass.core.model.job import Job, Launcher, RestartPolicy, Role
from windlass.jobs.kubernetes.labels import TOKEN
from windlass.jobs.kubernetes.manifests.trainingjob_manifest import training_job

pytestmark = pytest.mark.apiserver
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
KILLED = {"type": "failed", "agent_id": "", "code": -9, "reason": "rank 1 (pid 7) killed by SIGKILL"}
FAILED = {"type": "failed", "agent_id": "", "code": 1, "reason": "rank 0 (pid 8) exited with 1"}
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


async def call(place: OperatorPlace, pod: str, generation: int = 0, **more: Any) -> Agent:
    reader, writer = await asyncio.open_connection("127.0.0.1", place.agents)
    agent = Agent(reader, writer)
    token = (await place.api.get(f"{PODS}/{pod}"))["metadata"]["annotations"][TOKEN]
    hello = {"name": f"{NAMESPACE}/{pod}", "token": token, "id": f"agent of {pod}", "address": "10.0.0.1"}
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
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"it still says {found}") from None


async def events(place: OperatorPlace, reason: str) -> list[str]:
    """The event with this reason, once it exists."""
    async with asyncio.timeout(strays.TIMEOUT_S):
        while True:
            items = (await place.api.get(EVENTS))["items"]
            if found := [each["note"] for each in items if each["reason"] == reason]:
                return found
            await asyncio.sleep(0.05)


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
        second = await call(place, "digits-worker-1", address="10.0.0.2")
        memberships = [(await agent.hears("start"))["membership"] for agent in (first, second)]
        assert [(each["me"], each["generation"], each["port"]) for each in memberships] == [(0, 1, 4711), (1, 1, 4711)]
        assert [member["address"] for member in memberships[0]["members"]] == ["10.0.0.1", "10.0.0.2"]
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
