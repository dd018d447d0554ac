"""Kept answers: for one audience only, by what a request means, and within a number of bytes."""

from __future__ import annotations

import asyncio
import gzip
import threading
from typing import Any

import pytest
from virtual_loop import run_in_virtual_time

from windlass.server.dashboard import view_cache
from windlass.server.dashboard.audience import EVERYTHING, Audience
from windlass.server.dashboard.view import View
from windlass.server.dashboard.view_cache import MAX_AUDIENCE_BYTES, MAX_BYTES, ViewCache

MIB = 1 << 20


def view(content: Any, *key: Any, computed: list[Any] | None = None) -> View:
    async def produce() -> Any:
        if computed is not None:
            computed.append(content)
        return content

    return View(key or ("queue",), produce)


def test_each_audience_has_its_own_answer_and_tag() -> None:
    async def story() -> None:
        cache, computed = ViewCache(), list[str]()
        for _ in range(2):
            ann = await cache.answer("a", view("ann's", computed=computed), 1)
            bob = await cache.answer("b", view("bob's", computed=computed), 1)
            assert (ann.plain, bob.plain) == (b'"ann\'s"', b'"bob\'s"')
            assert ann.etag != bob.etag
        assert computed == ["ann's", "bob's"]
        assert (await cache.answer("a", view("new"), 2)).plain == b'"new"'

    asyncio.run(story())


def test_many_failing_questions_leave_nothing_behind() -> None:
    async def story() -> None:
        cache = ViewCache()

        async def fail() -> None:
            raise ValueError("no answer")

        for number in range(1_000):
            with pytest.raises(ValueError, match="no answer"):
                await cache.answer("a", View(("queue", number), fail), 1)
        assert not cache._running
        assert cache.size == 0

    asyncio.run(story())


def test_answers_are_bounded_by_bytes_and_the_oldest_is_dropped_first() -> None:
    async def story() -> None:
        cache, computed = ViewCache(), list[int]()
        for audience in range(8):
            for number in range(8):
                await cache.answer(str(audience), view("x" * 4 * MIB, "history", number), 1)
                assert cache.size <= MAX_BYTES
        await cache.answer("a", view("y" * (MAX_AUDIENCE_BYTES + 1), "too large"), 1)
        assert cache.size <= MAX_BYTES
        for number in range(8):
            await cache.answer("7", view(number, "history", number, computed=computed), 1)
        assert computed == [0, 1, 2, 3, 4]
        for number in range(20_000):
            cache._keep(("a", ("queue", number)), view_cache.CachedAnswer("", b"{}", None), 1)
        assert cache.size <= MAX_BYTES

    asyncio.run(story())


def test_variants_of_one_audience_leave_the_answers_of_another() -> None:
    async def story() -> None:
        cache, computed = ViewCache(), list[str]()
        await cache.answer("bob", view("overview", computed=computed), 1)
        for number in range(64):
            await cache.answer("ann", view("x" * MIB, "queue", number), 1)
        await cache.answer("bob", view("overview", computed=computed), 1)
        assert computed == ["overview"]

    asyncio.run(story())


def test_an_answer_from_records_is_kept_until_they_change() -> None:
    async def story() -> None:
        cache, computed, stamps = ViewCache(), list[str](), ["1", "1", "2"]

        async def stamp() -> str:
            return stamps.pop(0)

        found = []
        for version, content in ((1, "a"), (1, "not asked"), (2, "b"), (3, "c")):
            of_records = View(("metrics", "x"), view(content, computed=computed).produce, stamp)
            found.append(await cache.answer("ann", of_records, version))
        assert [each.plain for each in found] == [b'"a"', b'"a"', b'"a"', b'"c"']
        assert found[0].etag == found[2].etag != found[3].etag
        assert computed == ["a", "c"]
        assert stamps == []

    asyncio.run(story())


def test_tags_of_an_earlier_process_are_others() -> None:
    first, second = (asyncio.run(ViewCache().answer("a", view("x"), 1)) for _ in range(2))
    assert first.etag != second.etag


def test_a_large_answer_is_encoded_outside_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    encode = view_cache._encode

    def watched(content: Any, etag: str) -> view_cache.CachedAnswer:
        threads.append(threading.current_thread())
        return encode(content, etag)

    monkeypatch.setattr(view_cache, "_encode", watched)
    content = {"jobs": [{"id": f"job-{number}", "wait": None, "share": 0.5} for number in range(1_000)]}
    found = asyncio.run(ViewCache().answer("a", view(content), 1))
    assert threads != [threading.main_thread()]
    assert found.compressed is not None
    assert gzip.decompress(found.compressed) == found.plain


def test_audiences_with_equal_rights_have_one_key() -> None:
    first = Audience(frozenset({"team-a", "team-b"}), frozenset({"nodes"}))
    assert first.key == Audience(frozenset({"team-b", "team-a"}), frozenset({"nodes"})).key
    keys = {first.key, EVERYTHING.key, Audience(frozenset(), frozenset()).key, Audience(frozenset(), None).key}
    assert len(keys) == 4
    assert (first.sees("team-a/x"), first.sees("team-c/x"), first.sees("team-ab/x"), first.sees("x")) == (
        True, False, False, False,
    )  # fmt: skip


def test_a_view_is_computed_by_one_request_at_a_time_and_for_each_version_once() -> None:
    async def story() -> None:
        cache, under_way, computed = ViewCache(), 0, 0

        async def produce() -> int:
            nonlocal under_way, computed
            under_way, computed = under_way + 1, computed + 1
            assert under_way == 1
            await asyncio.sleep(0.1)
            under_way -= 1
            return computed

        tasks = []
        for version in range(1, 9):
            tasks += [asyncio.create_task(cache.answer("a", View(("overview",), produce), version)) for _ in range(3)]
            await asyncio.sleep(0.05)
        found = await asyncio.gather(*tasks)
        assert computed <= 8
        assert found[-1].plain == str(computed).encode()
        assert list(cache._versions.values()) == [8]
        assert not cache._running

    run_in_virtual_time(story())


def test_a_later_answer_is_given_to_a_question_about_an_earlier_version() -> None:
    async def story() -> None:
        cache = ViewCache()
        later = await cache.answer("a", view("later"), 7)
        assert await cache.answer("a", view("not asked"), 6) is later

    asyncio.run(story())


def test_a_request_that_ends_early_leaves_the_computation_to_the_next() -> None:
    async def story() -> None:
        cache = ViewCache()

        async def hang() -> None:
            await asyncio.Event().wait()

        first = asyncio.create_task(cache.answer("a", View(("queue",), hang), 1))
        await asyncio.sleep(1)
        second = asyncio.create_task(cache.answer("a", view("found"), 1))
        await asyncio.sleep(1)
        first.cancel()
        assert (await second).plain == b'"found"'

    run_in_virtual_time(story())
