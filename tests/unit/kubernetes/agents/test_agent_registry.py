"""Agents of several gangs: members that end without a leader, faults of one gang, and recoveries that are reported."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from windlass.agent.rendezvous import state_machine as rules
from windlass.backends.kubernetes.agents import pod_tokens
from windlass.backends.kubernetes.agents.agent_registry import AgentRegistry, gang_secret
from windlass.backends.kubernetes.agents.gang_agents import GIVEN_UP, BackendAccess, GangAgents
from windlass.backends.kubernetes.agents.pod_tokens import TokenReviews
from windlass.backends.kubernetes.agents.rate_limit import RateLimitError
from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.gangs.run import Run
from windlass.backends.kubernetes.pods.pod_binding import pod_of
from windlass.backends.kubernetes.settings import AgentSettings
from windlass.core.model.job import RestartPolicy
from windlass.jobs.kubernetes.labels import GENERATION
from windlass.jobs.kubernetes.pods.agent_pods import AUDIENCE

ADDRESS = "10.0.0.1"
"""Of every pod, unless a test gives another one."""


def pod(name: str, phase: str = "Running", ip: str = ADDRESS, *, host_network: bool = False) -> Any:
    about = {"name": name, "namespace": "team", "uid": name, "resourceVersion": "1", "labels": {GENERATION: "1"}}
    spec = {"nodeName": "n0", "hostNetwork": host_network}
    return pod_of({"metadata": about, "spec": spec, "status": {"phase": phase, "podIP": ip}})


def gang(name: str) -> Any:
    """A gang of two pods, with the fields that agents concern."""
    names = {f"{name}-0": 0, f"{name}-1": 1}
    reference = SimpleNamespace(uid=name, namespace="team", name=name)
    run = Run(1, ())
    status = SimpleNamespace(agent_generation=0)
    return SimpleNamespace(
        id=name,
        reference=reference,
        job=SimpleNamespace(restart=RestartPolicy()),
        run=run,
        status=status,
        training={},
        news=False,
        pod_names=lambda _run: names,
    )


class Connection:
    """Keeps the kinds of the messages sent to it."""

    def __init__(self, peer_address: str = ADDRESS) -> None:
        self.peer_address = peer_address
        self.sent: list[str] = []
        self.closed = False

    def send(self, message: Any) -> None:
        self.sent.append(message["type"])

    def close(self) -> None:
        self.closed = True


def reviewed(token: str, namespace: str = "team", **changed: Any) -> Any:
    """The status of a review: the token "token of POD" is that of the pod."""
    uid = token.removeprefix("token of ")
    extra = {"authentication.kubernetes.io/pod-uid": [uid], "authentication.kubernetes.io/pod-name": [uid]}
    user = {"username": f"system:serviceaccount:{namespace}:default", "extra": extra}
    return {"authenticated": True, "audiences": [AUDIENCE], "user": user, **changed}


class Operator:
    """Two gangs, their pods, and the events recorded for them."""

    def __init__(self, settings: AgentSettings = AgentSettings(b"key")) -> None:  # noqa: B008 - it is frozen
        self.gangs = {name: gang(name) for name in ("a", "b")}
        self.pods = {f"{name}-{at}": pod(f"{name}-{at}") for name in self.gangs for at in (0, 1)}
        self.recorded: list[Any] = []
        self.requests: list[Any] = []
        """Token reviews."""
        self.review: Callable[[str], Any] = reviewed
        """Returns the status of a review of a token; raises what the API server answers else."""
        pods: Any = SimpleNamespace(get=lambda _namespace, name: self.pods.get(name))
        events: Any = SimpleNamespace(record=self.recorded.append)
        access = BackendAccess(pods, events, lambda _event: None, lambda _gang: None, lambda: 1_000)
        api: Any = SimpleNamespace(request=self._request)
        gang_of = lambda pod: self.gangs[pod.metadata.name[0]]  # noqa: E731
        self.registry = AgentRegistry(access, gang_of, TokenReviews(api), settings)

    async def _request(self, method: str, path: str, *, body: Any, within: float) -> bytes:
        assert (method, path, within) == ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", 8.0)
        self.requests.append(body["spec"])
        return json.dumps({"status": self.review(body["spec"]["token"])}).encode()

    async def connect(
        self, name: str, generation: int = 0, token: object = "", source: str = ADDRESS
    ) -> tuple[Connection, Any]:
        """A connection and the receiver of its messages. `token`: "": the pod's own."""
        connection: Any = Connection(source)
        hello = {"type": "hello", "name": f"team/{name}", "token": token or f"token of {name}", "id": name}
        hello |= {"port": 4000, "ranks": 1, "generation": generation, "seen": generation, "last": None}
        return connection, await self.registry.connect(hello, connection)

    def rendezvous(self, name: str) -> Any:
        return self.registry._gangs[name].rendezvous


def test_a_job_ends_although_a_member_succeeded_without_a_leader() -> None:
    async def scenario() -> None:
        operator = Operator()
        connection, receive = await operator.connect("a-0", generation=3)
        receive({"type": "succeeded", "agent_id": "", "generation": 3})
        operator.registry.check_timeouts()
        assert connection.sent == ["welcome"], "the other one may be on its way"
        operator.pods["a-1"] = pod("a-1", "Succeeded")
        operator.registry.check_timeouts()
        assert connection.sent == ["welcome", "close"]

    asyncio.run(scenario())


def test_ranks_do_not_restart_beside_a_member_that_has_succeeded() -> None:
    async def scenario() -> None:
        operator = Operator()
        connection, receive = await operator.connect("a-0", generation=3)
        operator.pods["a-1"] = pod("a-1", "Succeeded")
        operator.registry.check_timeouts()
        receive({"type": "failed", "agent_id": "", "generation": 3, "code": 1, "reason": "rank 0 exited with 1"})
        receive({"type": "stopped", "agent_id": "", "generation": 3, "code": 0})
        assert connection.sent == ["welcome", "halt", "close"]

    asyncio.run(scenario())


def test_a_fault_of_one_gang_is_reported_once_and_other_gangs_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        operator = Operator()
        connection, _ = await operator.connect("a-0", generation=3)
        other, receive = await operator.connect("b-0", generation=3)
        monkeypatch.setattr(operator.rendezvous("a"), "check_timeouts", lambda _now: 1 / 0)
        for _ in range(3):
            operator.registry.check_timeouts()
        assert [(event.about.name, event.reason) for event in operator.recorded] == [("a", GIVEN_UP)]
        assert "ZeroDivisionError" in operator.recorded[0].note
        assert connection.closed
        assert (await operator.connect("a-0", generation=3))[1] is None, "it continues without the operator"
        receive({"type": "succeeded", "agent_id": "", "generation": 3})
        operator.pods["b-1"] = pod("b-1", "Succeeded")
        operator.registry.check_timeouts()
        assert other.sent == ["welcome", "close"]
        operator.gangs["a"].run = Run(1, ())
        assert (await operator.connect("a-0"))[1] is not None, "its next run is another one"

    asyncio.run(scenario())


def test_a_recovery_is_reported_before_the_next_run_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        operator = Operator()
        await operator.connect("a-0", generation=3)
        ended: list[Any] = []
        monkeypatch.setattr(GangAgents, "report_recovery", lambda agents: ended.append(agents.run))
        before, operator.gangs["a"].run = operator.gangs["a"].run, Run(1, ())
        await operator.connect("a-0")
        assert ended == [before]
        assert operator.rendezvous("a").state.phase is rules.RendezvousPhase.GATHERING

    asyncio.run(scenario())


REFUSED_REVIEWS = {
    "not authenticated": {"authenticated": False},
    "audience of the API server": {"audiences": ["https://kubernetes.default.svc"]},
    "no audience": {"audiences": None},
    "token of an account": {"user": {"username": "system:serviceaccount:team:default"}},
    "token of a user": {"user": {"username": "ada", "extra": {"authentication.kubernetes.io/pod-uid": ["a-0"]}}},
}


@pytest.mark.parametrize("review", REFUSED_REVIEWS.values(), ids=REFUSED_REVIEWS.keys())
def test_a_token_that_was_not_issued_to_the_pod_for_agents_is_refused(review: dict[str, Any]) -> None:
    async def scenario() -> None:
        operator = Operator()
        operator.review = lambda token: {**reviewed(token), **review}
        connection, receive = await operator.connect("a-0")
        assert receive is None
        assert connection.sent == []
        assert operator.requests == [{"token": "token of a-0", "audiences": [AUDIENCE]}]
        assert [(event.about.name, event.reason) for event in operator.recorded] == [("a", "AgentRefused")]

    asyncio.run(scenario())


@pytest.mark.parametrize("token", ["token of a-1", "token of b-0"])
def test_the_token_of_another_pod_is_refused(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_tokens, "_REFUSAL_S", 0.0)

    async def scenario() -> None:
        operator = Operator()
        assert (await operator.connect("a-0", token=token))[1] is None
        assert (await operator.connect("a-0"))[1] is not None

    asyncio.run(scenario())


@pytest.mark.parametrize("token", [None, 7, ["token of a-0"], "x" * 20_000])
def test_values_that_are_no_tokens_are_not_reviewed(token: object) -> None:
    async def scenario() -> None:
        operator = Operator()
        hello = {"type": "hello", "name": "team/a-0", "token": token}
        connection: Any = Connection()
        assert await operator.registry.connect(hello, connection) is None
        assert operator.requests == []

    asyncio.run(scenario())


def test_a_connection_from_another_address_than_the_pods_is_refused_without_a_review_and_reported_once() -> None:
    async def scenario() -> None:
        operator = Operator()
        for _ in range(3):
            assert (await operator.connect("a-0", source="10.0.0.66"))[1] is None
        assert operator.requests == []
        (event,) = operator.recorded
        assert (event.about.name, event.reason) == ("a", "AgentRefused")
        assert event.note == (
            "a connection that names a-0 was refused: it comes from 10.0.0.66, and the pod has 10.0.0.1"
        )
        assert (await operator.connect("a-0", source="::ffff:10.0.0.1"))[1] is not None

    asyncio.run(scenario())


def test_the_address_of_a_pod_on_the_hosts_network_is_not_compared() -> None:
    async def scenario() -> None:
        operator = Operator()
        operator.pods["a-0"] = pod("a-0", host_network=True)
        assert (await operator.connect("a-0", source="10.0.0.66"))[1] is not None
        assert (await operator.connect("a-0", source="10.0.0.66", token="token of b-0"))[1] is None  # noqa: S106

    asyncio.run(scenario())


def test_a_setting_allows_other_addresses_to_those_who_have_the_token() -> None:
    async def scenario() -> None:
        operator = Operator(AgentSettings(b"key", any_source=True))
        assert (await operator.connect("a-0", source="10.0.0.66"))[1] is not None
        assert (await operator.connect("a-1", source="10.0.0.66", token="token of a-0"))[1] is None  # noqa: S106

    asyncio.run(scenario())


def test_an_agent_that_sends_too_much_is_reported_once_and_counted() -> None:
    async def scenario() -> None:
        operator, counted = Operator(), list[Exception]()
        operator.registry.on_invalid_message = counted.append
        connection, receive = await operator.connect("a-0")
        assert receive is not None
        for error in (ValueError("not a number"), RateLimitError("it sends more"), RateLimitError("it sends more")):
            operator.registry.refuse(connection, error)
        assert len(counted) == 3
        (event,) = operator.recorded
        assert event.reason == "AgentRefused"
        assert event.note == "a connection that names a-0 was refused: it sends more"

    asyncio.run(scenario())


def test_a_pod_without_an_address_waits_and_is_not_reported() -> None:
    async def scenario() -> None:
        operator = Operator()
        operator.pods["a-0"] = pod("a-0", ip="")
        assert (await operator.connect("a-0"))[1] is None
        assert operator.recorded == []

    asyncio.run(scenario())


def test_an_agent_connects_again_when_the_api_server_cannot_review() -> None:
    async def scenario() -> None:
        operator = Operator()

        def away(_token: str) -> Any:
            raise ApiError(503)

        operator.review = away
        assert (await operator.connect("a-0"))[1] is None
        assert operator.recorded == []
        operator.review = reviewed
        assert (await operator.connect("a-0"))[1] is not None

    asyncio.run(scenario())


def test_a_pod_that_was_replaced_during_the_review_is_not_joined() -> None:
    async def scenario() -> None:
        operator = Operator()

        def replace(token: str) -> Any:
            successor = pod("a-0")
            operator.pods["a-0"] = msgspec.structs.replace(
                successor, metadata=msgspec.structs.replace(successor.metadata, uid="another")
            )
            return reviewed(token)

        operator.review = replace
        connection, receive = await operator.connect("a-0")
        assert (receive, connection.sent) == (None, [])

    asyncio.run(scenario())


def test_each_generation_of_each_gang_has_a_secret_of_its_own_that_every_leader_derives() -> None:
    secrets = {gang_secret(b"key", uid, generation) for uid in ("u", "v") for generation in (1, 2)}
    assert len(secrets) == 4
    assert gang_secret(b"key", "u", 1) in secrets
    assert gang_secret(b"another", "u", 1) not in secrets
    assert {len(each) for each in secrets} == {64}
