"""Agents of several gangs: members that end without a leader, faults of one gang, and recoveries that are reported."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from windlass.agent.rendezvous import state_machine as rules
from windlass.backends.kubernetes.agents.agent_registry import AgentRegistry
from windlass.backends.kubernetes.agents.gang_agents import GIVEN_UP, BackendAccess, GangAgents
from windlass.backends.kubernetes.gangs.run import Run
from windlass.backends.kubernetes.pods.pod_binding import pod_of
from windlass.core.model.job import RestartPolicy
from windlass.jobs.kubernetes.labels import GENERATION


def pod(name: str, phase: str = "Running") -> Any:
    about = {"name": name, "namespace": "team", "uid": name, "resourceVersion": "1", "labels": {GENERATION: "1"}}
    token = {"windlass.dev/agent-token": "secret"}
    about["annotations"] = token
    return pod_of({"metadata": about, "spec": {"nodeName": "n0"}, "status": {"phase": phase}})


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

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.closed = False

    def send(self, message: Any) -> None:
        self.sent.append(message["type"])

    def close(self) -> None:
        self.closed = True


class Operator:
    """Two gangs, their pods, and the events recorded for them."""

    def __init__(self) -> None:
        self.gangs = {name: gang(name) for name in ("a", "b")}
        self.pods = {f"{name}-{at}": pod(f"{name}-{at}") for name in self.gangs for at in (0, 1)}
        self.recorded: list[Any] = []
        pods: Any = SimpleNamespace(get=lambda _namespace, name: self.pods.get(name))
        events: Any = SimpleNamespace(record=self.recorded.append)
        access = BackendAccess(pods, events, lambda _event: None, lambda _gang: None, lambda: 1_000)
        self.registry = AgentRegistry(access, lambda pod: self.gangs[pod.metadata.name[0]])

    def connect(self, name: str, generation: int = 0) -> tuple[Connection, Any]:
        connection: Any = Connection()
        hello = {"type": "hello", "name": f"team/{name}", "token": "secret", "id": name, "address": "10.0.0.1"}
        hello |= {"port": 4000, "ranks": 1, "generation": generation, "seen": generation, "last": None}
        return connection, self.registry.connect(hello, connection)

    def rendezvous(self, name: str) -> Any:
        return self.registry._gangs[name].rendezvous


def test_a_job_ends_although_a_member_succeeded_without_a_leader() -> None:
    async def scenario() -> None:
        operator = Operator()
        connection, receive = operator.connect("a-0", generation=3)
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
        connection, receive = operator.connect("a-0", generation=3)
        operator.pods["a-1"] = pod("a-1", "Succeeded")
        operator.registry.check_timeouts()
        receive({"type": "failed", "agent_id": "", "generation": 3, "code": 1, "reason": "rank 0 exited with 1"})
        receive({"type": "stopped", "agent_id": "", "generation": 3, "code": 0})
        assert connection.sent == ["welcome", "halt", "close"]

    asyncio.run(scenario())


def test_a_fault_of_one_gang_is_reported_once_and_other_gangs_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        operator = Operator()
        (connection, _), (other, receive) = operator.connect("a-0", generation=3), operator.connect("b-0", generation=3)
        monkeypatch.setattr(operator.rendezvous("a"), "check_timeouts", lambda _now: 1 / 0)
        for _ in range(3):
            operator.registry.check_timeouts()
        assert [(event.about.name, event.reason) for event in operator.recorded] == [("a", GIVEN_UP)]
        assert "ZeroDivisionError" in operator.recorded[0].note
        assert connection.closed
        assert operator.connect("a-0", generation=3)[1] is None, "it continues without the operator"
        receive({"type": "succeeded", "agent_id": "", "generation": 3})
        operator.pods["b-1"] = pod("b-1", "Succeeded")
        operator.registry.check_timeouts()
        assert other.sent == ["welcome", "close"]
        operator.gangs["a"].run = Run(1, ())
        assert operator.connect("a-0")[1] is not None, "its next run is another one"

    asyncio.run(scenario())


def test_a_recovery_is_reported_before_the_next_run_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        operator = Operator()
        operator.connect("a-0", generation=3)
        ended: list[Any] = []
        monkeypatch.setattr(GangAgents, "report_recovery", lambda agents: ended.append(agents.run))
        before, operator.gangs["a"].run = operator.gangs["a"].run, Run(1, ())
        operator.connect("a-0")
        assert ended == [before]
        assert operator.rendezvous("a").state.phase is rules.RendezvousPhase.GATHERING

    asyncio.run(scenario())
