"""Exports telemetry while a replica leads: frames of the present at each interval, and the traces of jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from windlass.backends.port import Transition
from windlass.core.model.status import JobState
from windlass.server.data_source import JobRecords
from windlass.server.operator.history.store import JobHistory
from windlass.server.operator.metrics import OperatorMetrics, own_samples
from windlass.server.telemetry_export.exports import Samples, TelemetryExports
from windlass.server.telemetry_export.settings import ExportSettings
from windlass.server.telemetry_export.trace_export import TracedJobs
from windlass.server.telemetry_export.trace_mark import TraceMark, decode_mark, encode_mark
from windlass.telemetry.frames import MetricFrame

_MARK = "traces"
_TRACE_INTERVAL_S = 15.0
"""Seconds between two frames where only traces are exported, for the first steps and the checkpoints."""


@dataclass(frozen=True, slots=True)
class PublishedCluster:
    """Sources of one leadership term. `frames`: of the present; `now`: in ms; `verdict_wait`: see `TracedJobs`."""

    records: JobRecords
    history: JobHistory
    metrics: OperatorMetrics
    frames: Callable[[], Iterable[MetricFrame]]
    now: Callable[[], int]
    verdict_wait: int


class TelemetryPublisher:
    """Exports of one leadership term."""

    def __init__(self, settings: ExportSettings, cluster: PublishedCluster, say: Callable[[str], None]) -> None:
        self._cluster, self._say = cluster, say
        jobs = TracedJobs(_HistoryRecords(cluster), cluster.now, cluster.verdict_wait)

        def own() -> Samples:
            return own_samples(cluster.metrics, cluster.history, cluster.now())

        self._exports = TelemetryExports(settings, jobs, HistoryMark(cluster.history), say, own)
        self._interval_s = _shortest_interval(settings)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to export, in the running loop."""
        self._exports.start()
        self._task = asyncio.get_running_loop().create_task(self._publish())

    async def close(self) -> None:
        """Ends the export, after what is complete is sent, for a bounded time."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._exports.close()

    async def _publish(self) -> None:
        """Offers frames at each interval until cancelled. A failure is reported when it differs from the last one."""
        trouble = ""
        while True:
            try:
                self._exports.offer(list(self._cluster.frames()))
                fault = ""
            except Exception as error:  # noqa: BLE001 - one failed export must not end all later ones
                fault = f"telemetry is not exported: {type(error).__name__}: {error}"
            if fault and fault != trouble:
                self._say(fault)
            trouble = fault
            await asyncio.sleep(self._interval_s)


class HistoryMark:
    """The mark of traces in the database of history, which all replicas share if it is PostgreSQL."""

    def __init__(self, history: JobHistory) -> None:
        self._history = history

    async def load(self) -> TraceMark | None:
        """See `MarkStore`. Raises HistoryError."""
        text = await self._history.note(_MARK)
        return None if text is None else decode_mark(text)

    async def save(self, mark: TraceMark) -> None:
        """See `MarkStore`. Raises HistoryError."""
        await self._history.set_note(_MARK, encode_mark(mark).decode())


class _HistoryRecords:
    """The history of jobs. Unlike the API's records it raises HistoryError: an empty answer would lose spans."""

    def __init__(self, cluster: PublishedCluster) -> None:
        self._cluster = cluster

    async def job(self, job_id: str) -> JobState | None:
        """See `TracedRecords`."""
        return await self._cluster.records.job(job_id)

    async def events(self, after: int, job_ids: Collection[str]) -> Sequence[tuple[int, Transition]]:
        """See `TracedRecords`."""
        return await self._cluster.history.events(after, job_ids)


def _shortest_interval(settings: ExportSettings) -> float:
    found = [settings.metrics_interval_s] if settings.metrics else []
    if settings.remote_write is not None:
        found.append(settings.remote_write.interval_s)
    return min(found, default=_TRACE_INTERVAL_S)
