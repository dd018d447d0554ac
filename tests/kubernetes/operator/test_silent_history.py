"""A database of history that keeps its connections and answers nothing: a stopped server, and a silent socket."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from backend_host import Behaviour
from dashboard_place import VIEW, Visitor, dashboard
from postgres_server import PostgresServer

import strays
from windlass.controlplane.cluster import ControlPlane
from windlass.core.model.job import Job, Role
from windlass.core.model.status import JobState, Phase, Status
from windlass.server.operator.history import databases, store, writer
from windlass.server.operator.history.databases import HistoryError
from windlass.server.operator.history.entries import HistoryEntry, LogEntry
from windlass.server.operator.history.store import JobHistory

NOON = 1_700_000_000_000
PAGE_S = 20.0
"""Seconds within which a page has an answer, whatever the database does."""
LINES = 64 << 10


def ended(name: str) -> JobState:
    status = Status(Phase.SUCCEEDED, created_at=NOON, finished_at=NOON + 60_000, generation=1)
    return JobState(f"team/{name}", 1, Job(name, (Role(),), user="ada"), status)


def log_of(name: str) -> HistoryEntry:
    return HistoryEntry(lines=(LogEntry(NOON, f"team/{name}", 1, 0, "x" * LINES),))


async def until(holds: Callable[[], object]) -> None:
    while not holds():  # noqa: ASYNC110 - no event to wait for
        await asyncio.sleep(0.05)


async def seconds_of(work: Awaitable[object]) -> float:
    """Seconds that work takes to fail because of the database."""
    began = time.monotonic()
    with pytest.raises(HistoryError, match=r"no answer within|does not answer|timeout"):
        await work
    return time.monotonic() - began


def test_a_stopped_server_delays_a_query_for_seconds_and_holds_up_no_later_one(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_QUERY_S", 2.0)
    monkeypatch.setattr(writer, "_WRITE_S", 3.0)
    monkeypatch.setattr(writer, "_MAX_QUEUED_BYTES", 50 * LINES)
    troubles: list[str] = []

    async def story() -> None:
        async with JobHistory(postgres.url, lambda: NOON, troubles.append) as kept:
            kept.writer.note(HistoryEntry(ended=(ended("before"),)))
            assert await kept.names() == ["team/before"]
            with postgres.frozen():
                # 1. entries wait, up to a number of bytes
                kept.writer.note(HistoryEntry(ended=(ended("meanwhile"),)))
                for number in range(200):
                    kept.writer.note(log_of(f"log-{number}"))
                assert kept.writer.waiting < 50
                assert kept.writer.lost > 150
                # 2. queries at once fail together, and later ones at once
                found = await asyncio.gather(*(seconds_of(kept.names()) for _ in range(20)))
                assert max(found) < 4
                await until(lambda: kept.writer.trouble)
                assert await seconds_of(kept.names()) < 1
                # 3. the next attempt is one, and the others wait for nothing
                await asyncio.sleep(4.5)
                waits = sorted(await asyncio.gather(*(seconds_of(kept.names()) for _ in range(20))))
                assert waits[18] < 1
            # 4. everything that has waited is written when the server goes on
            await until(lambda: not kept.writer.waiting and not kept.writer.trouble)
            while "team/meanwhile" not in await names_of(kept):  # noqa: ASYNC110 - no event to wait for
                await asyncio.sleep(0.1)

    asyncio.run(asyncio.wait_for(story(), strays.TIMEOUT_S * 3))
    assert "no answer within 3 s" in troubles[0]
    assert troubles[1].startswith("history is written again, without ")
    assert "secret" not in "".join(troubles)


async def names_of(kept: JobHistory) -> list[str]:
    try:
        return await kept.names()
    except HistoryError:
        return []


def test_a_history_ends_in_time_while_its_server_is_stopped(postgres: PostgresServer) -> None:
    async def story() -> float:
        with ExitStack() as stopped:
            async with JobHistory(postgres.url, lambda: NOON, lambda _: None) as kept:
                await kept.names()
                stopped.enter_context(postgres.frozen())
                kept.writer.note(log_of("late"))
                asking = asyncio.create_task(kept.names())
                await asyncio.sleep(0.5)
                began = time.monotonic()
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            return time.monotonic() - began

    assert asyncio.run(asyncio.wait_for(story(), strays.TIMEOUT_S)) < 10


def test_a_socket_that_accepts_and_is_silent_is_an_error_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "_CONNECT_TIMEOUT_S", 2)

    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"postgresql://windlass@127.0.0.1:{silent.getsockname()[1]}/windlass"
            async with JobHistory(url, lambda: NOON, lambda _: None) as kept:
                assert await seconds_of(kept.names()) < 6
                assert await seconds_of(kept.names()) < 2

    asyncio.run(asyncio.wait_for(story(), strays.TIMEOUT_S))


@pytest.mark.apiserver
def test_jobs_start_and_pages_come_in_time_while_the_server_is_stopped(
    apiserver: ControlPlane, postgres: PostgresServer, tmp_path: Path
) -> None:
    async def story() -> None:
        async with dashboard(apiserver, tmp_path, history_url=postgres.url) as place:

            def is_running(job_id: str) -> bool:
                gang = place.place.world.jobs.get(job_id)
                return gang is not None and gang.state.status.phase is Phase.RUNNING

            await place.grant(VIEW, "team-a", "ann")
            ann = await place.signed_in("team-a", "ann")
            await place.submit("team-a", "first", Behaviour.RUN)
            await place.place.phase("team-a/first", "Running")
            with postgres.frozen():
                await place.submit("team-a", "second", Behaviour.RUN)
                await until(lambda: is_running("team-a/second"))
                await asyncio.gather(*(page_in_time(ann, path) for path in PAGES for _ in range(2)))
                await place.submit("team-a", "third", Behaviour.RUN)
                await until(lambda: is_running("team-a/third"))
                assert "third" in str(await ann.read("/api/queue"))

    asyncio.run(asyncio.wait_for(story(), strays.TIMEOUT_S * 6))


PAGES = {
    "/api/overview": 200,
    "/api/queue": 200,
    "/api/nodes": 200,
    "/api/job/team-a/first": 200,
    "/api/findings/team-a/first": 200,
    "/api/history": 500,
}
"""Views, and the status of their answers without a history."""


async def page_in_time(visitor: Visitor, path: str) -> None:
    began = time.monotonic()
    answer = await visitor.get(path)
    assert time.monotonic() - began < PAGE_S, path
    assert answer.status in (PAGES[path], 429), (path, answer)
