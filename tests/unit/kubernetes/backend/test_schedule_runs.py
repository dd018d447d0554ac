"""Turns of schedules: a slow one holds up neither another schedule nor another namespace."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windlass.backends.kubernetes.client.object_cache import Change
from windlass.backends.kubernetes.schedules import schedule_runs
from windlass.backends.kubernetes.schedules.schedule_runs import ScheduleRuns
from windlass.backends.kubernetes.schedules.schedule_turn import TurnContext


class Turns:
    """Turns that are noted; those of a namespace "slow" wait until they may end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: list[tuple[str, str]] = []
        self.may_end, self._more = asyncio.Event(), asyncio.Event()
        monkeypatch.setattr(schedule_runs, "take_turn", self._take)
        nothing: Any = None
        context = TurnContext(nothing, lambda: 1_000, nothing, nothing, nothing)
        self.runs = ScheduleRuns(context, pytest.fail)

    async def _take(self, _context: TurnContext, namespace: str, name: str) -> None:
        self.taken.append((namespace, name))
        self._more.set()
        if namespace == "slow":
            await self.may_end.wait()

    def change(self, namespace: str, name: str, generation: int = 1) -> None:
        about = {"namespace": namespace, "name": name, "uid": name, "generation": generation}
        self.runs.see([Change("modified", {"metadata": about})])

    async def until(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.taken) < count:
                self._more.clear()
                await self._more.wait()


def test_slow_turns_of_one_namespace_hold_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        turns = Turns(monkeypatch)
        for number in range(40):
            turns.change("slow", f"s{number}")
        carried_out = asyncio.create_task(turns.runs.run())
        await turns.until(4)
        for generation in (1, 2, 3):
            turns.change("vision", "nightly", generation)
            await turns.until(4 + generation)
        assert turns.taken[4:] == [("vision", "nightly")] * 3
        turns.may_end.set()
        await turns.until(43)
        carried_out.cancel()

    asyncio.run(story())


def test_a_schedule_that_changes_in_its_turn_has_another_one_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        turns = Turns(monkeypatch)
        turns.change("slow", "s")
        carried_out = asyncio.create_task(turns.runs.run())
        await turns.until(1)
        turns.change("slow", "s", 2)
        turns.change("vision", "nightly")
        await turns.until(2)
        assert turns.taken == [("slow", "s"), ("vision", "nightly")]
        turns.may_end.set()
        await turns.until(3)
        assert turns.taken[2] == ("slow", "s")
        carried_out.cancel()

    asyncio.run(story())


@pytest.mark.parametrize(("owner", "turns_taken"), [("nightly", 2), ("another", 1)])
def test_only_a_run_that_the_schedule_owns_gives_it_a_turn(
    monkeypatch: pytest.MonkeyPatch, owner: str, turns_taken: int
) -> None:
    async def story() -> None:
        turns = Turns(monkeypatch)
        turns.change("vision", "nightly")
        await turns.runs.take_due_turns()
        about = {
            "namespace": "vision",
            "labels": {"windlass.dev/schedule": "nightly"},
            "ownerReferences": [{"uid": owner, "controller": True}],
        }
        turns.runs.see_run(Change("added", {"metadata": about}))
        await turns.runs.take_due_turns()
        assert len(turns.taken) == turns_taken

    asyncio.run(story())
