"""Gangs whose agents are led, and ends of agents that cannot report them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from windlass.agent.rendezvous import state_machine as rules
from windlass.backends.kubernetes.agents.agent_registry import GIVEN_UP, AgentRegistry
from windlass.backends.kubernetes.gangs.run import Run
from windlass.backends.kubernetes.pods.pod_binding import GENERATION, pod_of
from windlass.core.model.job import RestartPolicy


def pod(name: str, phase: str = "Running") -> Any:
    about = {"name": name, "namespace": "team", "uid": name, "resourceVersion": "1", "labels": {GENERATION: "1"}}
    token = {"windlass.dev/agent-token": "secret"}
    about["annotations"] = token
    return pod_of({"metadata": about, "spec": {"nodeName": "n0"}, "status": {"phase": phase}})


def gang(name: str) -> Any:
    """Of two pods, as far as agents matter."""
    names = {f"{name}-0": 0, f"{name}-1": 1}
    home = SimpleNamespace(uid=name, namespace="team", name=name)
    run = Run(1, ())
    status = SimpleNamespace(agent_generation=0)
    return SimpleNamespace(
        id=name,
        home=home,
        job=SimpleNamespace(restart=RestartPolicy()),
        run=run,
        status=status,
        training={},
        news=False,
        pod_names=lambda _run: names,
    )


class Line:
    """Keeps the kinds of what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.closed = False

    def say(self, message: Any) -> None:
        self.told.append(message["type"])

    def close(self) -> None:
        self.closed = True


class Operator:
    """Two gangs, their pods, and what was announced of them."""

    def __init__(self) -> None:
        self.gangs = {name: gang(name) for name in ("a", "b")}
        self.pods = {f"{name}-{at}": pod(f"{name}-{at}") for name in self.gangs for at in (0, 1)}
        self.news: list[Any] = []
        book: Any = SimpleNamespace(get=lambda _namespace, name: self.pods.get(name))
        announcer: Any = SimpleNamespace(tell=self.news.append)
        self.attendance = AgentRegistry(
            book,
            lambda pod: self.gangs[pod.metadata.name[0]],
            announcer,
            lambda _event: None,
            lambda _gang: None,
            lambda: 1_000,
        )

    def call(self, name: str, generation: int = 0) -> tuple[Line, Any]:
        line: Any = Line()
        hello = {"type": "hello", "name": f"team/{name}", "token": "secret", "id": name, "address": "10.0.0.1"}
        hello |= {"port": 4000, "ranks": 1, "generation": generation, "seen": generation, "last": None}
        return line, self.attendance.welcome(hello, line)

    def meeting(self, name: str) -> Any:
        return self.attendance._attended[name].meeting


def told(story: Any) -> None:
    asyncio.run(story())


def test_a_job_ends_though_an_agent_left_well_without_a_leader() -> None:
    async def story() -> None:
        operator = Operator()
        line, hear = operator.call("a-0", generation=3)
        hear({"type": "succeeded", "id": "", "generation": 3})
        operator.attendance.look()
        assert line.told == ["welcome"], "the other one may be on its way"
        operator.pods["a-1"] = pod("a-1", "Succeeded")
        operator.attendance.look()
        assert line.told == ["welcome", "close"]

    told(story)


def test_ranks_do_not_start_again_beside_one_that_has_left() -> None:
    async def story() -> None:
        operator = Operator()
        line, hear = operator.call("a-0", generation=3)
        operator.pods["a-1"] = pod("a-1", "Succeeded")
        operator.attendance.look()
        hear({"type": "failed", "id": "", "generation": 3, "code": 1, "why": "rank 0 exited with 1"})
        hear({"type": "stopped", "id": "", "generation": 3, "code": 0})
        assert line.told == ["welcome", "halt", "close"]

    told(story)


def test_a_fault_in_leading_one_gang_is_told_once_and_others_are_led_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        operator = Operator()
        (line, _), (other, hear) = operator.call("a-0", generation=3), operator.call("b-0", generation=3)
        monkeypatch.setattr(operator.meeting("a"), "look", lambda _now: 1 / 0)
        for _ in range(3):
            operator.attendance.look()
        assert [(news.about.name, news.reason) for news in operator.news] == [("a", GIVEN_UP)]
        assert "ZeroDivisionError" in operator.news[0].note
        assert line.closed
        assert operator.call("a-0", generation=3)[1] is None, "it goes on by itself"
        hear({"type": "succeeded", "id": "", "generation": 3})
        operator.pods["b-1"] = pod("b-1", "Succeeded")
        operator.attendance.look()
        assert other.told == ["welcome", "close"]
        operator.gangs["a"].run = Run(1, ())
        assert operator.call("a-0")[1] is not None, "its next run is another one"

    told(story)


def test_a_recovery_is_reported_before_the_next_run_is_led(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        operator = Operator()
        operator.call("a-0", generation=3)
        ended: list[Any] = []
        monkeypatch.setattr(AgentRegistry, "_tell_of", lambda _self, each: ended.append(each.run))
        before, operator.gangs["a"].run = operator.gangs["a"].run, Run(1, ())
        operator.call("a-0")
        assert ended == [before]
        assert operator.meeting("a").crew.phase is rules.RendezvousPhase.GATHERING

    told(story)
