"""Exports of the operator go on after a failure, which is reported once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from virtual_loop import run_in_virtual_time

from windlass.server.operator import telemetry_publisher
from windlass.server.operator.telemetry_publisher import PublishedCluster, TelemetryPublisher
from windlass.server.telemetry_export.settings import ExportSettings
from windlass.telemetry.frames import CLUSTER, MetricFrame

FRAME = MetricFrame(CLUSTER, 1, {})


class Exports:
    """Keeps what it is offered."""

    def __init__(self, *_: Any) -> None:
        self.offered: list[MetricFrame] = []

    def start(self) -> None:
        """Sends nothing."""

    async def close(self) -> None:
        """Has nothing to send."""

    def offer(self, frames: Iterable[MetricFrame]) -> None:
        self.offered += frames


def test_a_failed_export_is_reported_and_the_next_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    exports, said, faults = Exports(), list[str](), ["", "no rank", "no rank", "no node", ""]

    def frames() -> list[MetricFrame]:
        if fault := faults.pop(0) if faults else "":
            raise ValueError(fault)
        return [FRAME]

    monkeypatch.setattr(telemetry_publisher, "TelemetryExports", lambda *_: exports)
    nothing: Any = None
    cluster = PublishedCluster(nothing, nothing, nothing, frames, lambda: 0, 0)

    async def story() -> None:
        publisher = TelemetryPublisher(ExportSettings(traces=True), cluster, said.append)
        publisher.start()
        await asyncio.sleep(15 * 5 + 1)
        await publisher.close()

    run_in_virtual_time(story())
    assert exports.offered == [FRAME] * 3
    assert said == [
        "telemetry is not exported: ValueError: no rank",
        "telemetry is not exported: ValueError: no node",
    ]
