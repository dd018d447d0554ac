"""Exports of one controller: an error of one export leaves the next one as it is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from virtual_loop import run_in_virtual_time

from windlass.server.telemetry_export import exports
from windlass.server.telemetry_export.exports import TelemetryExports
from windlass.server.telemetry_export.settings import ExportSettings
from windlass.telemetry.frames import CLUSTER, MetricFrame
from windlass.telemetry.samples import Sample

INTERVAL_S = 10.0
FRAMES = [MetricFrame(CLUSTER, number, {}) for number in range(5)]


class Queue:
    """A queue whose receiver has everything at once."""

    trouble = ""

    def __init__(self, *_: Any) -> None:
        self.offered: list[Any] = []

    def offer(self, batch: Any, _size: int) -> None:
        self.offered.append(batch)

    def close(self, _timeout: float) -> None:
        """Nothing waits."""


def test_a_failed_flush_is_reported_and_the_next_frames_go_out(monkeypatch: pytest.MonkeyPatch) -> None:
    queue, said, faults = Queue(), list[str](), ["", "no lease", "no lease", "no queue", ""]

    def own() -> tuple[Sample, ...]:
        if fault := faults.pop(0) if faults else "":
            raise ValueError(fault)
        return ()

    async def story() -> None:
        running = TelemetryExports(ExportSettings(metrics=True, metrics_interval_s=INTERVAL_S), jobs, store, say, own)
        running.start()
        for frame in FRAMES:
            running.offer([frame])
            await asyncio.sleep(INTERVAL_S * 1.001)
        assert [batch.frames for batch in queue.offered] == [(FRAMES[0],), (FRAMES[4],)]
        await running.close()

    monkeypatch.setattr(exports, "PushQueue", lambda *_: queue)
    jobs: Any = type("Jobs", (), {"now": lambda _: 0})()
    store: Any = None
    say = said.append
    run_in_virtual_time(story())
    assert said == [
        "metrics are not exported: ValueError: no lease",
        "metrics are not exported: ValueError: no queue",
    ]


def test_a_failure_at_the_end_does_not_keep_the_queue_open(monkeypatch: pytest.MonkeyPatch) -> None:
    closed, said = list[float](), list[str]()
    queue = Queue()
    monkeypatch.setattr(queue, "close", closed.append)
    monkeypatch.setattr(exports, "PushQueue", lambda *_: queue)
    jobs: Any = type("Jobs", (), {"now": lambda _: 0})()
    store: Any = None

    def own() -> tuple[Sample, ...]:
        raise ValueError("no lease")

    async def story() -> None:
        running = TelemetryExports(ExportSettings(metrics=True), jobs, store, said.append, own)
        running.start()
        await running.close()

    run_in_virtual_time(story())
    assert len(closed) == 1
    assert said == ["metrics are not exported: ValueError: no lease"]
