"""Everything that a controller exports while it lives: queues of receivers, and the tasks that fill them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from windlass.server.telemetry_export.job_trace import JobSpan
from windlass.server.telemetry_export.push_queue import PushQueue, Receiver, RefusedError
from windlass.server.telemetry_export.remote_write import connect_remote_write, receiver_address
from windlass.server.telemetry_export.settings import ExportSettings, RemoteWriteSettings
from windlass.server.telemetry_export.trace_export import SpanQueue, TracedJobs, TraceExport
from windlass.server.telemetry_export.trace_mark import MarkStore
from windlass.telemetry.frames import MetricFrame
from windlass.telemetry.samples import HistogramSample, Sample, frame_samples

Samples: TypeAlias = Sequence[Sample | HistogramSample]
OwnSamples: TypeAlias = Callable[[], Samples]
MetricQueue: TypeAlias = "PushQueue[_MetricBatch]"
MakeBatch: TypeAlias = "Callable[[Sequence[MetricFrame]], _MetricBatch]"
_CLOSE_S = 2.0
"""Longest time that the end of a controller waits for receivers."""
_POLL_INTERVAL_S = 0.02
_SAMPLE_BYTES = 100
_MAX_SCOPES = 20_000
_OTLP = "the receiver of OTEL_EXPORTER_OTLP_ENDPOINT"


class TelemetryExports:
    """Exports of one controller. `offer` takes frames as they are recorded; of each scope the newest of a span is sent.

    `own`: further samples at the time of an export, of the operator's own work. `store`: for the mark of traces.
    """

    def __init__(
        self,
        settings: ExportSettings,
        jobs: TracedJobs,
        store: MarkStore,
        say: Callable[[str], None],
        own: OwnSamples = tuple,
    ) -> None:
        self._settings, self._own, self._say = settings, own, say
        self._flushes: list[_MetricFlush] = []
        self._traces: TraceExport | None = None
        self._queues: list[MetricQueue | SpanQueue] = []
        self._tasks: list[asyncio.Task[None]] = []
        if settings.metrics:
            otlp = Receiver("metrics", _OTLP, partial(_connect_metrics, jobs.now()))
            self._add_metrics(PushQueue(otlp, say), settings.metrics_interval_s)
        if (remote := settings.remote_write) is not None:
            written = Receiver("metrics", receiver_address(remote.url), partial(_connect_remote_write, remote))
            self._add_metrics(PushQueue(written, say), remote.interval_s)
        if settings.traces:
            spans: SpanQueue = PushQueue(Receiver("traces", _OTLP, _connect_spans), say)
            self._queues.append(spans)
            self._traces = TraceExport(jobs, store, spans, say)

    def start(self) -> None:
        """Begins to export, in the running loop."""
        loop = asyncio.get_running_loop()
        self._tasks += [loop.create_task(flush.run()) for flush in self._flushes]
        if self._traces is not None:
            self._tasks.append(loop.create_task(self._traces.run()))

    def offer(self, frames: Sequence[MetricFrame]) -> None:
        """Takes frames of the present."""
        for flush in self._flushes:
            flush.offer(frames)
        if self._traces is not None:
            self._traces.observe(frames)

    async def close(self) -> None:
        """Sends what is complete, for a bounded time, and not to receivers that are away."""
        until = time.monotonic() + _CLOSE_S
        for flush in self._flushes:
            flush.flush()
        if self._traces is not None:
            last = asyncio.create_task(self._traces.export(verdict_wait=0))
            self._tasks.append(last)
            while not (last.done() or self._is_troubled or time.monotonic() > until):
                await asyncio.wait([last], timeout=_POLL_INTERVAL_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for queue in self._queues:
            await asyncio.to_thread(queue.close, max(0.0, until - time.monotonic()))

    @property
    def _is_troubled(self) -> bool:
        return any(queue.trouble for queue in self._queues)

    def _batch(self, frames: Sequence[MetricFrame]) -> _MetricBatch:
        return _MetricBatch(frames, self._own(), self._settings.ranks)

    def _add_metrics(self, queue: MetricQueue, interval_s: float) -> None:
        self._queues.append(queue)
        self._flushes.append(_MetricFlush(queue, interval_s, self._batch, self._say))


@dataclass(frozen=True, slots=True)
class _MetricBatch:
    """Frames and further samples of one export. The thread that sends them takes the frames apart."""

    frames: Sequence[MetricFrame]
    own: Samples
    ranks: bool

    def samples(self) -> list[Sample | HistogramSample]:
        return [*frame_samples(self.frames, ranks=self.ranks), *self.own]

    def size(self) -> int:
        """About the bytes in memory."""
        series = sum(len(frame.values) for frame in self.frames) + len(self.own)
        return _SAMPLE_BYTES * series + sum(v.nbytes for frame in self.frames for v in frame.values.values())


class _MetricFlush:
    """The newest frame of each scope since the last flush, and the task that passes them to a queue.

    `say` is told of a failure that differs from the last one.
    """

    def __init__(self, queue: MetricQueue, interval_s: float, make: MakeBatch, say: Callable[[str], None]) -> None:
        self._queue, self._interval_s, self._make, self._say = queue, interval_s, make, say
        self._newest: dict[str, MetricFrame] = {}
        self._fault = ""

    def offer(self, frames: Iterable[MetricFrame]) -> None:
        """Takes frames; of a scope beyond the limit none."""
        for frame in frames:
            if frame.scope in self._newest or len(self._newest) < _MAX_SCOPES:
                self._newest[frame.scope] = frame

    async def run(self) -> None:
        """Flushes at each interval until cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            self.flush()

    def flush(self) -> None:
        """Queues the frames, and forgets them. After a failure they are lost, because they may be its cause."""
        frames, self._newest, fault = tuple(self._newest.values()), {}, ""
        try:
            batch = self._make(frames)
            if batch.frames or batch.own:
                self._queue.offer(batch, batch.size())
        except Exception as error:  # noqa: BLE001 - one failed export must not end all later ones
            fault = f"metrics are not exported: {type(error).__name__}: {error}"
        if fault and fault != self._fault:
            self._say(fault)
        self._fault = fault


def _connect_metrics(started: int) -> Callable[[_MetricBatch], None]:
    try:
        from windlass.server.telemetry_export.otlp_receivers import send_metrics  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise _missing(error) from error
    send = send_metrics(started)
    return lambda batch: send(batch.samples())


def _connect_remote_write(settings: RemoteWriteSettings) -> Callable[[_MetricBatch], None]:
    send = connect_remote_write(settings)
    return lambda batch: send(batch.samples())


def _connect_spans() -> Callable[[Sequence[JobSpan]], None]:
    try:
        from windlass.server.telemetry_export.otlp_receivers import send_spans  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise _missing(error) from error
    return send_spans()


def _missing(error: ImportError) -> RefusedError:
    return RefusedError(f"{error.name} is missing: pip install 'windlass-train[otlp]'")
