"""Background writes."""

import asyncio

from windlass.backends.kubernetes.client.api_errors import ApiError, Unreachable
from windlass.backends.kubernetes.client.coalescing_writer import CoalescingWriter


def play(write, story, **given):
    troubles = []

    async def whole():
        scribe = CoalescingWriter(write, troubles.append, **{"delay": 0, "every": 0, **given})
        await story(scribe)
        await scribe.close()

    asyncio.run(whole())
    return troubles


async def turns(count=20):
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_key_marked_often_is_written_once_and_again_if_it_changes_afterwards():
    written = []

    async def write(key):
        written.append(key)

    async def story(scribe):
        for _ in range(3):
            scribe.mark("a")
        await turns()
        scribe.mark("a")
        await turns()

    play(write, story)
    assert written == ["a", "a"]


def test_a_write_that_did_not_reach_the_server_is_tried_again():
    left = [Unreachable("no answer"), None]

    async def write(_key):
        if (trouble := left.pop(0)) is not None:
            raise trouble

    async def story(scribe):
        scribe.mark("a")
        await turns()

    assert play(write, story) == []
    assert left == []


def test_a_refusal_is_reported_once():
    async def write(_key):
        raise ApiError(403, "Forbidden", "you may not")

    async def story(scribe):
        for key in "abc":
            scribe.mark(key)
        await turns()

    assert play(write, story) == ["you may not"]


def test_a_forgotten_key_is_not_written():
    async def write(key):
        raise AssertionError(key)

    async def story(scribe):
        scribe.mark("a")
        scribe.forget("a")
        await turns()

    assert play(write, story) == []
