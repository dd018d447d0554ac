"""Answers kept for an audience are given to no other, and keys of failures are not kept."""

from __future__ import annotations

import asyncio

import pytest

from windlass.server.dashboard.audience import EVERYTHING, Audience
from windlass.server.dashboard.view_cache import ViewCache


def test_each_audience_has_its_own_answer_and_tag() -> None:
    async def story() -> None:
        cache, computed = ViewCache(), []

        async def produce(text: str) -> str:
            computed.append(text)
            return text

        for _ in range(2):
            ann = await cache.answer("a", "/api/queue", 1, lambda: produce("ann's"))
            bob = await cache.answer("b", "/api/queue", 1, lambda: produce("bob's"))
            assert (ann.plain, bob.plain) == (b'"ann\'s"', b'"bob\'s"')
            assert ann.etag != bob.etag
        assert computed == ["ann's", "bob's"]

    asyncio.run(story())


def test_many_failing_questions_leave_nothing_behind() -> None:
    async def story() -> None:
        cache = ViewCache()

        async def fail() -> None:
            raise ValueError

        for number in range(1_000):
            with pytest.raises(ValueError, match=""):
                await cache.answer("a", f"/api/queue?{number}", 1, fail)
        assert not cache._locks

    asyncio.run(story())


def test_audiences_with_equal_rights_have_one_key() -> None:
    first = Audience(frozenset({"team-a", "team-b"}), frozenset({"nodes"}))
    assert first.key == Audience(frozenset({"team-b", "team-a"}), frozenset({"nodes"})).key
    keys = {first.key, EVERYTHING.key, Audience(frozenset(), frozenset()).key, Audience(frozenset(), None).key}
    assert len(keys) == 4
    assert (first.sees("team-a/x"), first.sees("team-c/x"), first.sees("team-ab/x"), first.sees("x")) == (
        True, False, False, False,
    )  # fmt: skip
