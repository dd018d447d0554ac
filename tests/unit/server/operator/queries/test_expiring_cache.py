"""A cache: bounded, forgetful, and one computation for all callers of a key."""

from __future__ import annotations

import asyncio

import pytest
from virtual_loop import run_in_virtual_time

from windlass.server.operator.queries.expiring_cache import ExpiringCache


def test_a_cache_is_bounded_and_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("windlass.server.operator.queries.expiring_cache.time.monotonic", lambda: now[0])
    cache = ExpiringCache[int, str](2, 10)
    for key in (1, 2, 3):
        cache[key] = str(key)
    assert [key in cache for key in (1, 2, 3)] == [False, True, True]
    assert cache[3] == "3"
    now[0] = 11
    assert 3 not in cache


def test_callers_of_one_key_share_a_computation() -> None:
    async def story() -> None:
        cache, computed = ExpiringCache[str, int](8, 10), []

        async def compute() -> int:
            computed.append(1)
            await asyncio.sleep(1)
            return 7

        assert await asyncio.gather(*(cache.fetch("k", compute) for _ in range(100))) == [7] * 100
        assert await cache.fetch("k", compute) == 7
        assert computed == [1]

    run_in_virtual_time(story())


def test_a_cancelled_caller_leaves_the_result_to_the_others() -> None:
    async def story() -> None:
        cache = ExpiringCache[str, int](8, 10)

        async def compute() -> int:
            await asyncio.sleep(1)
            return 7

        first, second = (asyncio.create_task(cache.fetch("k", compute)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == 7
        assert first.cancelled()

    run_in_virtual_time(story())


def test_an_error_reaches_all_callers_and_is_not_kept() -> None:
    async def story() -> None:
        cache = ExpiringCache[str, int](8, 10)

        async def fail() -> int:
            await asyncio.sleep(1)
            raise ValueError("no answer")

        async def succeed() -> int:
            return 7

        found = await asyncio.gather(*(cache.fetch("k", fail) for _ in range(3)), return_exceptions=True)
        assert [str(each) for each in found] == ["no answer"] * 3
        assert await cache.fetch("k", succeed) == 7

    run_in_virtual_time(story())
