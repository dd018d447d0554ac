import asyncio
import contextlib
import json

import orjson
import pytest
from client.fake_api import bookmark, event, fake_api, hangs_up, page, pod, refuses, streams

import strays
from windlass.backends.kubernetes.client import objects, transport
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.identity import constant_access
from windlass.backends.kubernetes.client.object_cache import ObjectCache
from windlass.backends.kubernetes.client.reflector import reflect
from windlass.backends.kubernetes.client.resources import PODS

GONE = event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"})


class Heard:
    """Events of a reflector: `+a1` is added, `~a2` modified, `-a2` deleted; `synced`, `trouble`, `well`, `odd:a`."""

    def __init__(self):
        self.words = []
        self.batches = 0
        self._more = asyncio.Event()

    def say(self, *words):
        self.words += words
        self._more.set()

    def apply(self, changes):
        self.batches += 1
        signs = {"added": "+", "modified": "~", "deleted": "-"}
        observed = [(change.kind, change.object["metadata"]) for change in changes]
        self.say(*(f"{signs[kind]}{metadata['name']}{metadata['resourceVersion']}" for kind, metadata in observed))

    def synced(self):
        self.say("synced")

    def trouble(self, error):
        self.say("well" if error is None else "trouble")

    def malformed(self, found):
        self.say(f"odd:{found.revision.name}")

    async def until(self, word, times=1):
        async with asyncio.timeout(strays.TIMEOUT_S * 3):
            while self.words.count(word) < times:
                self._more.clear()
                await self._more.wait()


@contextlib.asynccontextmanager
async def reflected(*tricks, usual=None, decode=orjson.loads, **options):
    """A reflector against prepared answers; the last one stays silent."""
    heard = Heard()
    async with fake_api(*tricks, usual=usual or streams()) as api, Connection(constant_access(api.url)) as connection:
        running = asyncio.create_task(
            reflect(
                connection,
                PODS,
                decode=decode,
                apply=heard.apply,
                synced=heard.synced,
                trouble=heard.trouble,
                malformed=heard.malformed,
                **options,
            )
        )
        yield api, heard
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


def watched_from(api):
    return [int(seen.query["resourceVersion"]) for seen in api.seen if "watch" in seen.query]


def test_a_list_is_followed_by_events():
    async def story():
        watch = streams(
            event("ADDED", pod("b", 101)), event("MODIFIED", pod("a", 102)), event("DELETED", pod("b", 103))
        )
        async with reflected(page(pod("a", 1)), watch, namespace="ns", selector="x=y", fields="a=b") as (api, heard):
            await heard.until("-b103")
            assert heard.words == ["+a1", "synced", "+b101", "~a102", "-b103"]
            assert watched_from(api) == [100]
            query = api.seen[1].query
            assert (query["allowWatchBookmarks"], query["labelSelector"], query["fieldSelector"]) == (
                "true",
                "x=y",
                "a=b",
            )
            assert 240 <= int(query["timeoutSeconds"]) <= 300
            assert {seen.path for seen in api.seen} == {"/api/v1/namespaces/ns/pods"}

    asyncio.run(story())


def test_an_empty_list_is_synced_too():
    async def story():
        async with reflected(page()) as (_, heard):
            await heard.until("synced")
            assert heard.batches == 0

    asyncio.run(story())


async def _is_removed():
    return True


def test_objects_of_a_resource_that_was_removed_while_the_watch_was_broken_are_deleted_once():
    async def story():
        unknown = refuses(404, "NotFound", "the server could not find the requested resource")
        tricks = (page(pod("a", 1)), hangs_up, unknown, unknown, page(pod("b", 102), version="102"))
        async with reflected(*tricks, is_removed=_is_removed) as (_, heard):
            await heard.until("+b102")
            assert [word for word in heard.words if word not in ("trouble", "well")] == [
                "+a1",
                "synced",
                "-a1",
                "+b102",
            ]

    asyncio.run(story())


def test_a_resource_that_is_unknown_at_the_first_list_is_synced_without_objects():
    async def story():
        async with reflected(usual=refuses(404, "NotFound"), is_removed=_is_removed) as (_, heard):
            await heard.until("synced")
            assert heard.batches == 0

    asyncio.run(story())


def test_a_resource_that_is_unknown_for_a_moment_keeps_its_objects():
    async def story():
        async def is_removed():
            return False

        tricks = (page(pod("a", 1)), refuses(404, "NotFound"), streams(event("MODIFIED", pod("a", 101))))
        async with reflected(*tricks, is_removed=is_removed) as (_, heard):
            await heard.until("~a101")
            assert "-a1" not in heard.words

    asyncio.run(story())


def test_events_that_arrive_together_are_applied_together():
    async def story():
        lines = b"".join(event("ADDED", pod(f"p{number}-", 101 + number)) for number in range(1000))
        async with reflected(page(), streams(lines)) as (_, heard):
            await heard.until("+p999-1100")
            assert heard.batches < 50
            assert len(heard.words) == 1001

    asyncio.run(story())


def test_a_line_received_in_pieces_is_one_event():
    async def story():
        line = event("ADDED", pod("a", 101))
        async with reflected(page(), streams(*(line[at : at + 1] for at in range(len(line))))) as (_, heard):
            await heard.until("+a101")
            assert heard.words == ["synced", "+a101"]

    asyncio.run(story())


@pytest.mark.parametrize("then", ["end", "cut"])
def test_a_watch_that_ends_or_breaks_is_resumed_from_the_last_event(then):
    async def story():
        tricks = [
            page(),
            streams(event("ADDED", pod("a", 101)), then=then),
            streams(event("ADDED", pod("b", 102)), bookmark(190), then=then),
            streams(event("ADDED", pod("c", 191))),
        ]
        async with reflected(*tricks) as (api, heard):
            await heard.until("+c191")
            assert [word for word in heard.words if word[0] == "+"] == ["+a101", "+b102", "+c191"]
            assert watched_from(api) == [100, 101, 190]

    asyncio.run(story())


def test_a_watch_that_breaks_within_a_line_loses_nothing():
    async def story():
        begun = event("ADDED", pod("b", 102))[:-10]
        again = streams(event("ADDED", pod("b", 102)))
        async with reflected(page(), streams(event("ADDED", pod("a", 101)) + begun, then="cut"), again) as (api, heard):
            await heard.until("+b102")
            assert watched_from(api) == [100, 101]

    asyncio.run(story())


def test_a_silent_watch_is_closed_and_resumed():
    async def story():
        tricks = [page(), streams(event("ADDED", pod("a", 101))), streams(event("ADDED", pod("b", 102)))]
        async with reflected(*tricks, silence=0.3) as (api, heard):
            await heard.until("+b102")
            assert watched_from(api)[:2] == [100, 101]
            assert heard.words[:3] == ["synced", "+a101", "+b102"]

    asyncio.run(story())


def test_a_server_that_does_not_start_a_watch_is_reported_before_a_silent_watch(monkeypatch):
    monkeypatch.setattr(transport, "WATCH_START_TIMEOUT_S", 0.3)

    async def story():
        async def says_nothing(_request):
            await asyncio.sleep(3600)

        async with reflected(page(), says_nothing, streams(event("ADDED", pod("a", 101))), silence=3600) as (_, heard):
            await heard.until("+a101")
            assert heard.words[:4] == ["synced", "trouble", "well", "+a101"]

    asyncio.run(story())


@pytest.mark.parametrize("how", ["an event", "an answer"])
def test_an_expired_version_is_listed_again_and_the_difference_reported(how):
    async def story():
        gone = streams(GONE) if how == "an event" else refuses(410, "Expired")
        tricks = [
            page(pod("same", 1), pod("changed", 2), pod("lost", 3)),
            gone,
            page(pod("same", 1), pod("changed", 150), pod("new", 151), version="160"),
        ]
        async with reflected(*tricks) as (api, heard):
            await heard.until("-lost3")
            assert heard.words == ["+same1", "+changed2", "+lost3", "synced", "~changed150", "+new151", "-lost3"]
            while len(watched_from(api)) < 2:  # noqa: ASYNC110 - the server has no event for this
                await asyncio.sleep(0.01)
            assert watched_from(api) == [100, 160]

    asyncio.run(story())


def test_events_before_an_error_in_the_same_batch_count():
    async def story():
        watch = streams(event("ADDED", pod("a", 101)) + GONE)
        async with reflected(page(), watch, page(pod("a", 101), version="120")) as (_, heard):
            await heard.until("+a101")
            assert heard.words == ["synced", "+a101"]

    asyncio.run(story())


def test_an_error_and_its_end_are_reported():
    async def story():
        forbidden = refuses(403, "Forbidden")
        tricks = [forbidden, hangs_up, forbidden, page(), refuses(500), streams(event("ADDED", pod("a", 101)))]
        async with reflected(*tricks) as (_, heard):
            await heard.until("+a101")
            assert heard.words == ["trouble", "trouble", "synced", "trouble", "well", "+a101"]

    asyncio.run(story())


def test_malformed_objects_are_reported_by_name_and_left_out():
    async def story():
        def decode(body):
            objects.pod(body)
            return json.loads(body)

        watch = streams(event("ADDED", pod("b", 101, spec=7)), event("ADDED", pod("c", 102)))
        async with reflected(page(pod("a", 1, status=[])), watch, decode=decode) as (_, heard):
            await heard.until("+c102")
            assert heard.words == ["odd:a", "synced", "odd:b", "+c102"]

    asyncio.run(story())


def test_a_response_that_is_no_watch_is_tried_again():
    async def story():
        tricks = [page(), streams(b"<html>\n</html>\n"), streams(event("ADDED", pod("a", 101)))]
        async with reflected(*tricks) as (_, heard):
            await heard.until("+a101")
            assert "trouble" in heard.words

    asyncio.run(story())


def test_a_writer_reads_its_own_write_and_the_watch_does_not_undo_it():
    async def story():
        fresh = ObjectCache()
        listed = asyncio.Event()

        async def watch(request):
            await listed.wait()
            late = event("MODIFIED", pod("a", 101)) + event("MODIFIED", pod("a", 105)) + event("ADDED", pod("z", 106))
            return await streams(late)(request)

        async with reflected(page(pod("a", 1)), watch, cache=fresh) as (_, heard):
            await heard.until("synced")
            assert [change.kind for change in fresh.put(pod("a", 105, node="n1"))] == ["modified"]
            listed.set()
            await heard.until("+z106")
            assert heard.words == ["+a1", "synced", "+z106"]
            assert fresh.get("ns", "a")["spec"]["nodeName"] == "n1"

    asyncio.run(story())


def test_watches_that_break_after_every_event_lose_none():
    async def story():
        versions = range(101, 141)
        tricks = [streams(event("ADDED", pod("p", version, uid=f"u{version}")), then="cut") for version in versions]
        async with reflected(page(), *tricks) as (_, heard):
            await heard.until("+p140")
            assert [word for word in heard.words if word[0] == "+"] == [f"+p{version}" for version in versions]

    asyncio.run(story())
