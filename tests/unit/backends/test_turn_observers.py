"""The order in which the loop calls the observers of its turns."""

from __future__ import annotations

import asyncio
from typing import Any

from windlass.backends.port import BackendError, Changes, ClusterChanged, JobArrived, Recovery
from windlass.controller.controller import Controller, run
from windlass.controller.observer import Observer
from windlass.core.model.job import Job, Role
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
from windlass.server.operator.ongoing_commit import OngoingCommit


class NotingObserver(Observer):
    """Notes each call into a list that the backend notes its own calls into."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def on_turn_start(self) -> None:
        self._calls.append("turn starts")

    def on_turn_end(self) -> None:
        self._calls.append("turn ends")

    def on_commit_start(self, changes: Changes) -> None:
        self._calls.append(f"commit of {len(changes.states)} starts")

    def on_commit_failed(self) -> None:
        self._calls.append("commit failed")

    def on_commit_end(self, changes: Changes) -> None:
        self._calls.append(f"commit of {len(changes.states)} ends")


class TwoJobBackend:
    """Reports two jobs; its first commit fails, and its second one refuses one of the jobs."""

    def __init__(self, calls: list[str]) -> None:
        self._calls, self._attempts, self._waits = calls, 0, 0

    def now(self) -> int:
        return 0

    def finished(self, _job_id: str) -> None:
        return None

    async def wait(self, _until: int | None) -> list[Any]:
        self._waits += 1
        if self._waits == 1:
            job = Job("j", (Role(resources={"gpu": 1}),))
            return [JobArrived("a-1", 1, job), JobArrived("b-1", 2, job)]
        if "perform" in self._calls[-3:]:
            raise asyncio.CancelledError
        return []

    async def commit(self, _changes: Changes) -> dict[str, str]:
        self._attempts += 1
        if self._attempts == 1:
            raise BackendError("the server is away")
        self._calls.append("commit")
        return {"b-1": "the webhook is down"}

    def perform(self, _commands: Any) -> None:
        self._calls.append("perform")


def drive(calls: list[str]) -> list[str]:
    nodes = (Node("n1", {"gpu": 8}),)
    backend = TwoJobBackend(calls)
    controller = Controller(Recovery(ClusterChanged(nodes, (Queue("default"),))), backend.finished)

    async def whole() -> None:
        await run(controller, backend, [NotingObserver(calls)], on_trouble=lambda _text: None)  # type: ignore[arg-type]

    try:
        asyncio.run(whole())
    except asyncio.CancelledError:
        return calls
    raise AssertionError("the loop ended")


def test_observers_are_called_around_each_decision_and_each_attempt_of_a_commit():
    assert drive([]) == [
        "perform",
        "turn starts",
        "turn ends",
        "commit of 2 starts",
        "commit failed",
        "commit of 2 starts",
        "commit",
        "commit of 1 ends",
        "perform",
    ]


def test_a_commit_is_under_way_from_its_start_to_its_end_or_failure():
    async def wait(commit: OngoingCommit) -> bool:
        try:
            await asyncio.wait_for(commit.wait(), 0.01)
        except TimeoutError:
            return False
        return True

    async def whole() -> list[bool]:
        commit = OngoingCommit()
        found = [await wait(commit)]
        for step in (commit.on_commit_start, commit.on_commit_end, commit.on_commit_start):
            step(Changes())
            found.append(await wait(commit))
        commit.on_commit_failed()
        return [*found, await wait(commit)]

    assert asyncio.run(whole()) == [True, False, True, False, True]
