"""History in either database, a real PostgreSQL server among them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import strays
from windlass.backends.port import Transition
from windlass.core.model.job import Job, Role
from windlass.core.model.status import JobState, Phase, Status
from windlass.server.job_filter import HistoryFilter
from windlass.server.operator.history import databases, tables, writer
from windlass.server.operator.history.databases import HistoryError
from windlass.server.operator.history.entries import HistoryEntry, LogEntry, MemberEntry, TransitionEntry
from windlass.server.operator.history.store import JobHistory
from windlass.server.operator.history.writer import RetentionLimits
from windlass.server.operator.pod_tasks import PodTask
from windlass.server.operator.telemetry_publisher import HistoryMark
from windlass.server.telemetry_export.job_trace import Milestone
from windlass.server.telemetry_export.trace_mark import JobMilestones, TraceMark

NOON = 1_700_000_000_000
DAY = 86_400_000


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/made/history.db"
    server = request.getfixturevalue("postgres")
    database = databases.connect(server.url)
    tables = ("meta", "jobs", "transitions", "members")
    database.prepare(f"DROP TABLE IF EXISTS windlass_{table}" for table in tables)
    database.close()
    return server.url


def ended(
    name: str, created: int = NOON, user: str = "ada", phase: Phase = Phase.SUCCEEDED, reason: str = ""
) -> JobState:
    job = Job(name, (Role(resources={"gpu": 1}),), user=user)
    status = Status(phase, reason, created_at=created, finished_at=created + 60_000, generation=1)
    return JobState(f"team/{name}", 1, job, status)


def entries_of(state: JobState, *phases: Phase) -> tuple[TransitionEntry, ...]:
    created = state.status.created_at
    ways = zip(("", *phases), phases, strict=False)
    steps = enumerate(ways)
    return tuple(
        TransitionEntry(created, Transition(state.id, created + at, "E", was, now, "why")) for at, (was, now) in steps
    )


def member(state: JobState, rank: int = 0, **how: object) -> MemberEntry:
    task = PodTask(state.id, 1, rank, "worker", rank, "n1", f"{state.job.name}-worker-{rank}")
    return MemberEntry(state.status.created_at, replace(task, **how))


def run(url: str, story: Callable[[JobHistory], object], **how: object) -> list[str]:
    """Errors reported meanwhile."""
    troubles: list[str] = []

    async def told_within() -> None:
        async with asyncio.timeout(strays.TIMEOUT_S * 3), JobHistory(url, lambda: NOON, troubles.append, **how) as kept:
            await story(kept)

    asyncio.run(told_within())
    return troubles


async def until(holds: Callable[[], object]) -> None:
    while not holds():  # noqa: ASYNC110 - no event to wait for
        await asyncio.sleep(0.01)


def test_a_later_leader_shows_the_final_state_of_a_job(url):
    state = ended("digits")
    log = LogEntry(NOON, state.id, 1, 0, "loss 0.1\nnul \x00 é\n")

    async def happen(kept: JobHistory) -> None:
        kept.writer.note(HistoryEntry(entries_of(state, Phase.CREATED, Phase.QUEUED, Phase.RUNNING)))
        kept.writer.note(
            HistoryEntry(entries_of(state, Phase.SUCCEEDED), (state,), (member(state, code=0, detail="ended well"),))
        )
        kept.writer.note(HistoryEntry(lines=(log,)))

    async def look_back(kept: JobHistory) -> None:
        assert await kept.job("team/digits") == state
        assert await kept.job("team/other") is None
        assert [each.after for each in await kept.transitions("team/digits", NOON)] == [
            "Created",
            "Queued",
            "Running",
            "Succeeded",
        ]
        [task] = await kept.tasks("team/digits", NOON)
        assert (task.pod, task.node, task.code, task.detail) == ("digits-worker-0", "n1", 0, "ended well")
        [lines] = await kept.logs("team/digits", NOON)
        assert (lines.pod, lines.text) == ("digits-worker-0", "loss 0.1\nnul  é\n")

    assert run(url, happen) == []
    assert run(url, look_back) == []


def test_noted_entries_are_visible_to_the_next_query(url):
    async def story(kept: JobHistory) -> None:
        for number in range(50):
            state = ended("digits", NOON + number * DAY)
            kept.writer.note(HistoryEntry(entries_of(state, Phase.SUCCEEDED), (state,)))
            assert await kept.job("team/digits") == state
        assert len(await kept.ended(HistoryFilter(name="digits", limit=100))) == 50

    run(url, story)


def test_listings_follow_their_filters(url):
    states = [
        ended("a", NOON, phase=Phase.FAILED, reason="Cancelled"),
        ended("b", NOON + 1, user="bob"),
        ended("c", NOON + 2, phase=Phase.FAILED, reason="ExitCode"),
    ]

    async def story(kept: JobHistory) -> None:
        kept.writer.note(HistoryEntry(ended=tuple(states)))

        async def listed(**query: object) -> str:
            return "".join(state.job.name for state in await kept.jobs(query, 10))

        assert await listed() == "cba"
        assert await listed(user={"bob"}) == "b"
        assert await listed(phases={Phase.FAILED}) == "ca"
        assert await listed(phases={Phase.SUCCEEDED}, failed_for={"Cancelled"}) == "ba"
        assert await listed(name={"a", "c"}, queue={"default"}) == "ca"
        assert len(await kept.jobs({}, 2)) == 2
        assert [s.job.name for s in await kept.ended(HistoryFilter(user="ada"))] == ["c", "a"]
        assert [s.job.name for s in await kept.ended(HistoryFilter(since=NOON + 60_001))] == ["c", "b"]
        assert await kept.ids("b") == await kept.ids("team/b") == ["team/b"]
        assert await kept.names() == ["team/c", "team/b", "team/a"]

    run(url, story)


def test_events_have_numbers_that_grow_with_time_also_over_writers(url):
    state = ended("digits")

    async def first(kept: JobHistory) -> None:
        kept.writer.note(HistoryEntry(entries_of(state, Phase.CREATED, Phase.QUEUED)))
        kept.writer.note(HistoryEntry(entries_of(ended("other"), Phase.CREATED)))

    async def second(kept: JobHistory) -> None:
        kept.writer.note(
            HistoryEntry(entries_of(replace(state, status=replace(state.status, created_at=NOON + 5)), Phase.FAILED))
        )
        events = await kept.events(0, ())
        assert [t.job_id for _, t in events] == ["team/digits", "team/digits", "team/other", "team/digits"]
        numbers = [number for number, _ in events]
        assert numbers == sorted(set(numbers))
        rest = await kept.events(numbers[1], {"team/digits"})
        assert rest == [events[3]]

    run(url, first)
    run(url, second)


def test_a_recorded_end_and_log_are_not_overwritten_by_a_later_record(url):
    state = ended("digits")

    async def story(kept: JobHistory) -> None:
        kept.writer.note(
            HistoryEntry(members=(member(state, code=3, detail="exited with code 3"), member(state, rank=1)))
        )
        kept.writer.note(
            HistoryEntry(lines=(LogEntry(NOON, state.id, 1, 0, "boom"), LogEntry(NOON, state.id, 1, 1, "", "gone")))
        )
        kept.writer.note(HistoryEntry(members=(member(state), member(state, rank=1, code=143))))
        kept.writer.note(HistoryEntry(lines=(LogEntry(NOON, state.id, 1, 0, "", "the pod was gone"),)))
        assert [(t.code, t.detail) for t in await kept.tasks(state.id, NOON)] == [(3, "exited with code 3"), (143, "")]
        assert [(log.text, log.missing) for log in await kept.logs(state.id, NOON)] == [("boom", ""), ("", "gone")]

    run(url, story)


def test_old_jobs_are_removed_and_running_ones_are_not(url):
    old, new, runs = ended("old", NOON - 15 * DAY), ended("new", NOON - 13 * DAY), ended("runs", NOON - 30 * DAY)
    lost = ended("lost", NOON - 30 * DAY)

    async def before(kept: JobHistory) -> None:
        for state in (old, new):
            kept.writer.note(HistoryEntry(entries_of(state, Phase.SUCCEEDED), (state,), (member(state, code=0),)))
        kept.writer.note(HistoryEntry((*entries_of(runs, Phase.RUNNING), *entries_of(lost, Phase.RUNNING))))

    async def later(kept: JobHistory) -> None:
        kept.writer.set_living([replace(runs, status=replace(runs.status, phase=Phase.RUNNING))])
        await cleaned(kept)
        assert await kept.names() == ["team/new"]
        assert {t.job_id for _, t in await kept.events(0, ())} == {"team/new", "team/runs"}
        assert await kept.tasks(old.id, old.status.created_at) == []

    run(url, before)
    run(url, later)


def test_tables_are_prepared_while_another_process_deletes_jobs(postgres):
    writer, other = databases.connect(postgres.url), databases.connect(postgres.url)
    tables.prepare(writer)
    waits = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND starts_with(query, 'CREATE INDEX')"
    )

    def forgotten() -> Iterator[databases.Write]:
        yield "DELETE FROM windlass_transitions WHERE job_id = ?", [("gone",)]
        until = time.monotonic() + strays.TIMEOUT_S
        while not looks.rows(waits)[0][0]:  # for the lock of the table with deleted rows
            assert time.monotonic() < until
            time.sleep(0.005)
        yield "DELETE FROM windlass_jobs WHERE id = ?", [("gone",)]

    looks = databases.connect(postgres.url)
    with ThreadPoolExecutor() as pool:
        forgets = pool.submit(writer.write, forgotten())
        prepares = pool.submit(tables.prepare, other)
        assert [forgets.result(), prepares.result()] == [None, None]
    for each in (writer, other, looks):
        each.close()


async def cleaned(kept: JobHistory) -> None:
    """Wait for the first removal of old jobs: only this history may remove the lost one."""
    while any(entries_of.job_id == "team/lost" for _, entries_of in await kept.events(0, ())):  # noqa: ASYNC110 - no event to wait for
        await asyncio.sleep(0.01)


def test_an_embedded_file_stays_within_its_size(tmp_path):
    url = f"sqlite://{tmp_path}/history.db"

    async def fill(kept: JobHistory) -> None:
        for number in range(400):
            state = ended(f"job-{number}", NOON - DAY + number)
            lines = LogEntry(state.status.created_at, state.id, 1, 0, "x" * 10_000)
            kept.writer.note(HistoryEntry(ended=(state,), members=(member(state, code=0),)))
            kept.writer.note(HistoryEntry(lines=(lines,)))

    async def later(kept: JobHistory) -> None:
        while await kept.job("team/job-0") is not None:  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(0.01)
        assert await kept.job("team/job-399") is not None  # the latest jobs are kept

    run(url, fill)
    run(url, later, retention=RetentionLimits(max_bytes=2 << 20))
    database = databases.connect(url)
    assert 1 << 20 < database.size() <= 2 << 20
    database.close()


def test_a_missing_server_delays_nothing_and_all_is_written_when_it_is_back(postgres, monkeypatch):
    monkeypatch.setattr(writer, "_RETRY_DELAY_S", 0.05)
    states = [ended(f"through-{number}") for number in range(3)]
    troubles: list[str] = []

    async def story() -> None:
        async with JobHistory(postgres.url, lambda: NOON, troubles.append) as kept:
            kept.writer.note(HistoryEntry(ended=(states[0],)))
            assert await kept.job(states[0].id)
            await asyncio.to_thread(postgres.stop)
            began = time.monotonic()
            for state in states[1:]:
                kept.writer.note(HistoryEntry(ended=(state,)))
            assert time.monotonic() - began < 1  # the entry only waits in the queue
            await until(lambda: kept.writer.trouble)
            with pytest.raises(HistoryError):
                await kept.job(states[1].id)
            await asyncio.to_thread(postgres.start)
            await until(lambda: not kept.writer.waiting)
            assert await kept.job(states[2].id) == states[2]

    asyncio.run(asyncio.wait_for(story(), strays.TIMEOUT_S * 3))
    assert len(troubles) == 2
    assert "secret" not in troubles[0]
    assert troubles[1] == "history is written again"


def test_entries_beyond_the_queue_are_counted_and_dropped(monkeypatch, tmp_path):
    monkeypatch.setattr(writer, "_MAX_QUEUED", 3)
    monkeypatch.setattr(writer, "_RETRY_DELAY_S", 0.01)
    (tmp_path / "file").touch()
    troubles = []

    async def story() -> None:
        async with JobHistory(f"sqlite://{tmp_path}/file/history.db", lambda: NOON, troubles.append) as kept:
            for number in range(5):
                kept.writer.note(HistoryEntry(ended=(ended(f"job-{number}"),)))
            assert (kept.writer.waiting, kept.writer.lost) == (3, 2)
            await until(lambda: kept.writer.trouble)
            (tmp_path / "file").unlink()
            await until(lambda: not kept.writer.waiting)
            assert len(await kept.names()) == 3

    asyncio.run(asyncio.wait_for(story(), strays.TIMEOUT_S))
    assert len(troubles) == 2
    assert troubles[1] == "history is written again, without 2 entries"


def test_a_refused_entry_costs_no_other_entry(url):
    async def story(kept: JobHistory) -> None:
        kept.writer.note(HistoryEntry(ended=(ended("before"),)))
        kept.writer.note(HistoryEntry(ended=(replace(ended("never"), number=2**70),)))
        kept.writer.note(HistoryEntry(ended=(ended("after"),)))
        await until(lambda: not kept.writer.waiting)
        assert set(await kept.names()) == {"team/before", "team/after"}
        assert kept.writer.lost == 1

    assert len(run(url, story)) >= 1


@pytest.mark.parametrize("url", ["", "history.db", "mysql://root@host/db", "sqlite://", "postgres"])
def test_an_invalid_database_url_is_refused(url):
    with pytest.raises(HistoryError, match=r"use sqlite:///path/of/a/file, or postgresql://user@host/database"):
        JobHistory(url, lambda: NOON, print)


def test_tables_of_another_version_are_not_changed(tmp_path):
    url = f"sqlite://{tmp_path}/history.db"

    async def nothing(kept: JobHistory) -> None:
        assert await kept.names() == []

    run(url, nothing)
    database = databases.connect(url)
    database.write([("UPDATE windlass_meta SET value = ?", [("99",)])])
    database.close()

    async def ask(kept: JobHistory) -> None:
        with pytest.raises(HistoryError, match="another version of Windlass"):
            await kept.names()

    assert len(run(url, ask)) <= 1


def test_the_mark_of_exported_traces_is_the_same_for_the_next_leader(url: str):
    mark = TraceMark(NOON * 1000)
    mark.jobs["team/a"] = JobMilestones(attempt=2, saved=NOON, milestones=[Milestone(NOON, "checkpoint", 40)])

    async def first(kept: JobHistory) -> None:
        assert await HistoryMark(kept).load() is None
        await HistoryMark(kept).save(TraceMark(1))
        await HistoryMark(kept).save(mark)

    async def second(kept: JobHistory) -> None:
        assert await HistoryMark(kept).load() == mark

    assert run(url, first) == run(url, second) == []
