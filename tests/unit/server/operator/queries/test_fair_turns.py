"""Turns: as many as allowed at once, and never all of them for one key."""

from __future__ import annotations

import asyncio

import pytest
from virtual_loop import run_in_virtual_time

from windlass.backends.kubernetes.client.reviews import User, account_user
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.operator.queries.fair_turns import FairTurns, limit_key


def test_a_key_with_endless_work_leaves_turns_to_others() -> None:
    async def story() -> None:
        turns, never = FairTurns(3, 2), asyncio.Event()
        holding: list[str] = []

        async def work(key: str) -> None:
            async with turns.take(key):
                holding.append(key)
                await never.wait()

        tasks = [asyncio.create_task(work("ann")) for _ in range(10)]
        await asyncio.sleep(0.1)
        assert holding == ["ann", "ann"]
        tasks += [asyncio.create_task(work("bob")) for _ in range(2)]
        await asyncio.sleep(0.1)
        assert holding == ["ann", "ann", "bob"]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert not turns._shares

    run_in_virtual_time(story())


def test_a_turn_goes_to_the_task_that_has_waited_longest() -> None:
    async def story() -> None:
        turns = FairTurns(1, 1)
        done: list[str] = []

        async def work(name: str, key: str) -> None:
            async with turns.take(key):
                await asyncio.sleep(1)
                done.append(name)

        await asyncio.gather(*(work(name, name[0]) for name in ("a1", "a2", "a3", "b1")))
        assert done == ["a1", "b1", "a2", "a3"]

    run_in_virtual_time(story())


def test_the_accounts_of_a_namespace_count_as_one_user() -> None:
    keys = {limit_key(account_user("team-a", name)) for name in ("x", "y", "z")}
    assert keys == {"system:serviceaccounts:team-a"}
    assert limit_key(User("team-a")) == "team-a"
    assert limit_key(User("system:serviceaccount:")) == "system:serviceaccount:"


def test_a_task_without_a_turn_in_time_is_refused_and_leaves_nothing_behind() -> None:
    async def story() -> None:
        turns = FairTurns(1, 1)
        async with turns.take("ann"):
            with pytest.raises(ApiError) as raised:
                async with turns.take("ann", 20.0):
                    pass
            assert raised.value.code is ErrorCode.BUSY
        async with turns.take("ann", 20.0):
            await asyncio.sleep(60)
        assert not turns._shares

    run_in_virtual_time(story())
