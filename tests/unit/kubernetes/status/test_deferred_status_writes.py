"""A state that the API server does not take holds up its own job, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from windlass.backends.kubernetes.client.api_errors import ApiError, Unreachable
from windlass.backends.kubernetes.status import deferred_status_writes
from windlass.backends.kubernetes.status.deferred_status_writes import DeferredStatusWrites
from windlass.backends.kubernetes.status.state_writes import DeposedError
from windlass.core.lifecycle.commands import Command, Launch, Stop
from windlass.core.model.job import Job, Role
from windlass.core.model.status import JobState, Phase, Placement, Status

NOWHERE = Placement({})
DENIED = ApiError(403, "Forbidden", "admission webhook says no")


def state(name: str, phase: Phase = Phase.QUEUED) -> JobState:
    return JobState(name, 1, Job(name, (Role(command=("true",)),)), Status(phase=phase))


class Desk:
    """`fails` is what a job's writes meet."""

    def __init__(self) -> None:
        self.fails: dict[str, Exception] = {}
        self.written: list[tuple[str, Phase]] = []
        self.done: list[Command] = []
        self.said: list[str] = []
        self.woken = asyncio.Event()
        self.owed = DeferredStatusWrites(self.write, self.perform, self.woken.set, self.said.append)

    async def write(self, state: JobState) -> None:
        if trouble := self.fails.get(state.id):
            raise trouble
        self.written.append((state.id, state.status.phase))

    def perform(self, commands: Sequence[Command]) -> None:
        self.done += commands


def told(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred_status_writes, "_AGAIN", 0.001)


def test_the_orders_of_a_job_wait_for_its_last_state_and_come_in_their_order() -> None:
    async def story() -> None:
        desk = Desk()
        desk.fails["cursed"] = DENIED
        first, second = Launch("cursed", 1, NOWHERE), Stop("cursed", 1, 0)
        other = Launch("other", 1, NOWHERE)
        await desk.owed.write(state("cursed"))
        await desk.owed.write(state("other"))
        assert list(desk.owed.possible([first, other])) == [other]
        await desk.owed.write(state("cursed", Phase.FAILED))
        assert list(desk.owed.possible([second])) == []
        assert desk.said == [
            "the state of cursed is not taken, and the job waits for that: admission webhook says no",
        ]
        known = desk.owed.get("cursed")
        assert known is not None
        assert known.status.phase is Phase.FAILED
        desk.fails.clear()
        await desk.woken.wait()
        assert desk.written == [("other", Phase.QUEUED), ("cursed", Phase.FAILED)]
        assert desk.done == [first, second]
        assert desk.owed.get("cursed") is None
        assert list(desk.owed.possible([first])) == [first]
        desk.owed.check()

    told(story())


@pytest.mark.parametrize("trouble", [Unreachable("no connection"), ApiError(503), ApiError(401)], ids=str)
def test_what_is_everybodys_trouble_is_raised(trouble: Exception) -> None:
    async def story() -> None:
        desk = Desk()
        desk.fails["a"] = trouble
        with pytest.raises(type(trouble)):
            await desk.owed.write(state("a"))
        assert desk.owed.get("a") is None

    told(story())


def test_one_that_was_deposed_meanwhile_hears_of_it() -> None:
    async def story() -> None:
        desk = Desk()
        desk.fails["a"] = DENIED
        await desk.owed.write(state("a"))
        desk.owed.check()
        desk.fails["a"] = DeposedError("another controller")
        await desk.woken.wait()
        with pytest.raises(DeposedError):
            desk.owed.check()

    told(story())


def test_what_is_left_unwritten_is_not_carried_out() -> None:
    async def story() -> None:
        desk = Desk()
        desk.fails["a"] = DENIED
        await desk.owed.write(state("a"))
        assert list(desk.owed.possible([Launch("a", 1, NOWHERE)])) == []
        await desk.owed.close()
        desk.fails.clear()
        await asyncio.sleep(0.01)
        assert (desk.written, desk.done) == ([], [])

    told(story())
