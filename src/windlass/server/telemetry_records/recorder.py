"""Records telemetry while a controller lives: a frame of the cluster, and of each queue, node and running job."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from windlass.core.model.status import HOLDING, JobState

if TYPE_CHECKING:
    from windlass.backends.local.nodes import LocalCluster
    from windlass.controller.controller import Controller
    from windlass.server.data_source import DataSource
    from windlass.server.telemetry_records.machine_gauge import MachineGauge
    from windlass.telemetry.frames import MetricFrame
    from windlass.telemetry.store import TelemetryStore

STORE_NAME = "telemetry.db"
_FIRST_S = 2.0
"""Delay of the first frame: a short `run` records nothing and loads nothing for it."""
_INTERVAL_S, _BUSY_INTERVAL_S = 2.0, 5.0
"""Seconds between two frames, and with more than `_FEW_JOBS` running jobs."""
_FEW_JOBS = 20
_COMPACTION_S = 60.0
_MAX_JOBS = 100
"""Running jobs of which each interval reads the ranks; with more, they take turns."""


@dataclass(frozen=True, slots=True)
class RecordedSource:
    """Sources of the values: the controller, the records of its jobs, and the nodes, which are this machine."""

    controller: Controller
    data: DataSource
    cluster: LocalCluster
    publish: Callable[[Sequence[MetricFrame]], None]
    """Called with all frames of an interval, for exporters."""


async def record_telemetry(source: RecordedSource, path: Path, say: Callable[[str], None]) -> None:
    """Records until cancelled. A store that fails is reported once and tried again; jobs are never affected."""
    await asyncio.sleep(_FIRST_S)
    recorder = _Recorder(source, path, say)
    try:
        while True:
            running = await recorder.record()
            await asyncio.sleep(_INTERVAL_S if running <= _FEW_JOBS else _BUSY_INTERVAL_S)
    finally:
        recorder.close()


class _Recorder:
    """The store, opened at the first frame, and the turn of jobs."""

    def __init__(self, source: RecordedSource, path: Path, say: Callable[[str], None]) -> None:
        self._controller, self._source, self._path, self._say = source.controller, source.data, path, say
        self._cluster, self._publish = source.cluster, source.publish
        self._gauge: MachineGauge | None = None
        self._store: TelemetryStore | None = None
        self._trouble = ""
        self._compacted = 0
        self._turn = 0

    async def record(self) -> int:
        """Records one frame of everything and returns the number of running jobs. A thread writes the file."""
        from windlass.telemetry.store import StoreError  # noqa: PLC0415 - numpy and sqlite3 after the start

        now = self._source.now()
        running = [state for state in self._controller.states.values() if state.status.phase in HOLDING]
        frames = [*self._frames(now), *[await self._job_frame(state, now) for state in self._take_turn(running)]]
        self._publish(frames)
        try:
            await asyncio.to_thread(self._write, frames, now)
        except StoreError as error:
            self._report(str(error))
        else:
            self._trouble = ""
        return len(running)

    def close(self) -> None:
        """Closes the store and ends measuring."""
        if self._store is not None:
            self._store.close()
        if self._gauge is not None:
            self._gauge.close()

    def _frames(self, now: int) -> list[MetricFrame]:
        from windlass.server.telemetry_records.machine_gauge import MachineGauge  # noqa: PLC0415 - see `record`
        from windlass.server.telemetry_records.node_measurements import node_frames  # noqa: PLC0415
        from windlass.server.telemetry_records.present_frames import cluster_and_queue_frames  # noqa: PLC0415

        if self._gauge is None:
            self._gauge = MachineGauge(tuple(node.name for node in self._cluster.nodes), self._cluster.devices)
        return [*cluster_and_queue_frames(self._controller, now), *node_frames(self._gauge.measure(), now)]

    async def _job_frame(self, state: JobState, now: int) -> MetricFrame:
        from windlass.server.telemetry_records import measurements  # noqa: PLC0415 - see `record`

        await asyncio.sleep(0)  # the controller's turns go between two jobs
        tasks = await self._source.records.tasks(state.id)
        return measurements.job_frame(state, self._source.records.ranks_seen(state, tasks), now)

    def _take_turn(self, running: list[JobState]) -> list[JobState]:
        if len(running) <= _MAX_JOBS:
            return running
        start, self._turn = self._turn % len(running), self._turn + _MAX_JOBS
        return (running[start:] + running[:start])[:_MAX_JOBS]

    def _write(self, frames: list[MetricFrame], now: int) -> None:
        from windlass.telemetry.store import TelemetryStore  # noqa: PLC0415 - see `record`

        if self._store is None:
            self._store = TelemetryStore.create(self._path)
            if self._store.replaced:
                self._say(self._store.replaced)
        self._store.add(frames)
        if now - self._compacted >= _COMPACTION_S * 1000:
            self._store.compact(now)
            self._compacted = now

    def _report(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._say(f"{trouble}; jobs are not affected")
        self._trouble = trouble
        if self._store is not None:
            with contextlib.suppress(Exception):
                self._store.close()
            self._store = None
