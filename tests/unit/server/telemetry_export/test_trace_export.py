"""The export of spans behind a saved mark: nothing is lost or repeated over restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from windlass.backends.port import Transition
from windlass.core.model.status import JobState
from windlass.server.telemetry_export.job_trace import JobSpan, Numbered
from windlass.server.telemetry_export.push_queue import PushQueue
from windlass.server.telemetry_export.trace_export import TracedJobs, TraceExport
from windlass.server.telemetry_export.trace_mark import MarkFile, TraceMark, decode_mark
from windlass.telemetry.frames import MetricFrame, job_scope

VERDICT_WAIT = 60_000
LIFE = (
    ("Arrived", "", "Created", ""),
    ("Submitted", "Created", "Queued", "Queued"),
    ("Admit", "Queued", "Admitted", "Admitted: starting on n1"),
    ("Started", "Admitted", "Running", "Running"),
    ("GangGone", "Running", "Failed", "ExitCode: rank 0 exited with code 3"),
)


class Records:
    """A history that grows."""

    def __init__(self) -> None:
        self.rows: list[Numbered] = []

    def add(self, job_id: str, *rows: tuple[str, str, str, str]) -> None:
        for event, before, after, message in rows:
            number = len(self.rows) + 1
            self.rows.append((number, Transition(job_id, 1000 * number, event, before, after, message)))

    async def job(self, _job_id: str) -> JobState | None:
        return None

    async def events(self, after: int, job_ids: Collection[str]) -> Sequence[Numbered]:
        return [row for row in self.rows if row[0] > after and (not job_ids or row[1].job_id in job_ids)]


class Queue:
    """A queue whose receiver has everything at once."""

    def __init__(self) -> None:
        self.spans: list[JobSpan] = []

    def offer(self, spans: Sequence[JobSpan], _size: int, done: Any) -> None:
        self.spans += spans
        done()

    @property
    def names(self) -> list[str]:
        return [span.name.removeprefix("windlass.") for span in self.spans]


class Bench:
    """Exports of successive controllers over one history and one mark."""

    def __init__(self, folder: Path) -> None:
        self.records, self.queue, self.said = Records(), Queue(), []
        self._folder, self.now = folder, 0

    def restart(self) -> TraceExport:
        jobs = TracedJobs(self.records, lambda: self.now, VERDICT_WAIT)
        return TraceExport(jobs, MarkFile(self._folder), cast("PushQueue[Any]", self.queue), self.said.append)

    def export(self, export: TraceExport, wait: int = VERDICT_WAIT) -> None:
        asyncio.run(export.export(wait))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_spans_are_sent_as_they_are_completed(bench: Bench):
    export = bench.restart()
    bench.export(export)
    bench.records.add("a", *LIFE[:3])
    bench.export(export)
    assert bench.queue.names == ["queue"]
    bench.records.add("a", *LIFE[3:], ("Diagnosed", "Failed", "Failed", "attempt 1: because"))
    bench.export(export)
    assert bench.queue.names == ["queue", "attempt", "job"]


@pytest.mark.parametrize("at", range(len(LIFE) + 1))
def test_another_controller_goes_on_where_the_last_one_was_killed(bench: Bench, at: int):
    bench.export(bench.restart())
    bench.records.add("a", *LIFE[:at])
    bench.export(bench.restart())
    bench.records.add("a", *LIFE[at:])
    bench.now = 1_000_000
    bench.export(bench.restart())
    bench.export(bench.restart())
    assert sorted(bench.queue.names) == ["attempt", "job", "queue"]


def test_a_failure_waits_for_its_verdict_but_not_for_ever(bench: Bench):
    export = bench.restart()
    bench.export(export)
    bench.records.add("a", *LIFE)
    bench.export(export)
    assert bench.queue.names == ["queue"]
    bench.now = 5_000 + VERDICT_WAIT
    bench.export(export)
    assert bench.queue.names == ["queue", "attempt", "job"]


def test_an_unforeseen_error_is_reported_and_the_next_export_sends_the_spans(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    export = bench.restart()
    bench.export(export)
    bench.records.add("a", *LIFE[:3])
    with monkeypatch.context() as broken:
        broken.setattr(bench.records, "events", {}.__getitem__)
        bench.export(export)
    assert len(bench.said) == 1
    assert bench.said[0].startswith("traces wait: TypeError: ")
    bench.export(export)
    assert bench.queue.names == ["queue"]


def test_the_end_of_a_controller_waits_for_no_verdict(bench: Bench):
    export = bench.restart()
    bench.export(export)
    bench.records.add("a", *LIFE)
    bench.now = 6_000
    bench.export(export, wait=0)
    assert bench.queue.names == ["queue", "attempt", "job"]


def test_jobs_that_ended_before_tracing_began_are_not_sent(bench: Bench):
    bench.records.add("old", *LIFE)
    bench.now = 1_000_000
    export = bench.restart()
    bench.export(export)
    bench.records.add("new", *LIFE)
    bench.export(export)
    assert {span.attributes["windlass.job.id"] for span in bench.queue.spans} == {"new"}


def test_a_history_that_begins_anew_is_exported_although_the_mark_is_ahead(bench: Bench):
    export = bench.restart()
    bench.export(export)
    bench.records.add("a", *LIFE)
    bench.now = 1_000_000
    bench.export(export)
    bench.records.rows.clear()
    bench.export(export := bench.restart())
    bench.records.add("b", *LIFE)
    bench.export(export)
    assert [span.attributes["windlass.job.id"] for span in bench.queue.spans].count("b") == 3


def frame(at: int, **values: float) -> MetricFrame:
    series = {f"windlass_job_{name}": np.array([value], np.float32) for name, value in values.items()}
    return MetricFrame(job_scope("a"), at, series)


def milestones(mark: TraceMark) -> list[tuple[str, int]]:
    return [(each.name, each.at) for each in mark.milestones("a")]


def test_first_steps_and_checkpoints_are_noted_once_for_each_attempt():
    mark = TraceMark(0)
    assert not mark.observe([frame(10_000, attempt=1)])
    assert mark.observe([frame(12_000, attempt=1, step=3, checkpoint_age_seconds=2)])  # since the loop began
    assert not mark.observe([frame(14_000, attempt=1, step=5, checkpoint_age_seconds=4)])
    assert mark.observe([frame(20_000, attempt=1, step=9, checkpoint_age_seconds=1)])
    assert not mark.observe([frame(22_000, attempt=1, step=9, checkpoint_age_seconds=3.001)])
    assert mark.observe([frame(40_000, attempt=2, step=10, checkpoint_age_seconds=5)])
    assert milestones(mark) == [("first step", 12_000), ("checkpoint", 19_000), ("first step", 40_000)]


def test_milestones_are_bounded_and_leave_with_the_job():
    mark = TraceMark(0)
    for number in range(200):
        mark.observe([frame(10_000 * number, attempt=1, step=1, checkpoint_age_seconds=0)])
    assert len(mark.milestones("a")) == 50
    mark.forget("a")
    assert mark.milestones("a") == []


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'{"after": "x"}', b"\xff"])
def test_a_damaged_mark_is_none(tmp_path: Path, data: bytes):
    assert decode_mark(data) is None
    (tmp_path / "traces.json").write_bytes(data)
    assert asyncio.run(MarkFile(tmp_path).load()) is None
