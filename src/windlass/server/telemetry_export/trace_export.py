"""Exports the spans of jobs in order of the events that complete them, behind a saved mark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from windlass.backends.errors import BackendError
from windlass.core.model.status import TERMINAL, JobState
from windlass.server.errors import ApiError
from windlass.server.telemetry_export.job_trace import JobSpan, Numbered, job_spans, split_submissions
from windlass.server.telemetry_export.push_queue import PushQueue
from windlass.server.telemetry_export.trace_mark import MarkStore, TraceMark
from windlass.telemetry.frames import MetricFrame

SpanQueue = PushQueue[Sequence[JobSpan]]
_INTERVAL_S = 1.0
_SPAN_BYTES = 1_000
_PAGE = 1_000
"""Events that the records return at a time."""
_MAX_HISTORY = 20
"""Pages of one job's history that are read."""


class TracedRecords(Protocol):
    """The history of jobs. Methods raise ApiError, BackendError where it cannot be read."""

    async def job(self, job_id: str) -> JobState | None:
        """A job as it was last committed, ended or not."""

    async def events(self, after: int, job_ids: Collection[str]) -> Sequence[Numbered]:
        """Transitions after event number `after` with their numbers, oldest first. No ids: of all jobs."""


@dataclass(frozen=True, slots=True)
class TracedJobs:
    """Source of the spans. `now`: in ms. `verdict_wait`: ms for which a failed attempt waits for its diagnosis."""

    records: TracedRecords
    now: Callable[[], int]
    verdict_wait: int = 60_000


class TraceExport:
    """Sends each batch of spans, and saves the mark once the receiver has it. One batch is under way at a time."""

    def __init__(self, jobs: TracedJobs, store: MarkStore, queue: SpanQueue, say: Callable[[str], None]) -> None:
        self._jobs, self._store, self._queue, self._say = jobs, store, queue, say
        self._mark: TraceMark | None = None
        self._has_news = False
        self._trouble = ""
        self._exporting = asyncio.Lock()

    async def run(self) -> None:
        """Exports until cancelled."""
        while True:
            await self.export(self._jobs.verdict_wait)
            await asyncio.sleep(_INTERVAL_S)

    def observe(self, frames: Iterable[MetricFrame]) -> None:
        """Notes first steps and checkpoints."""
        if self._mark is not None:
            self._has_news |= self._mark.observe(frames)

    async def export(self, verdict_wait: int) -> None:
        """Sends the spans that are complete since the mark. What fails is said once and tried again."""
        async with self._exporting:
            try:
                await self._export(verdict_wait)
            except (OSError, BackendError, ApiError) as error:
                self._report(str(error))
            except Exception as error:  # noqa: BLE001 - one failed export must not end all later ones
                self._report(f"{type(error).__name__}: {error}")
            else:
                self._trouble = ""

    async def _export(self, verdict_wait: int) -> None:
        mark = self._mark = self._mark or await self._load()
        # 1. events behind the mark, and the spans that they complete
        events = await self._jobs.records.events(mark.after, ())
        spans = await self._spans(mark, events)
        # 2. no further than to a failure whose verdict may still come
        last = _last_ready(spans, events[-1][0] if events else mark.after, self._jobs.now() - verdict_wait)
        # 3. send, then move the mark
        await self._send([span for span in spans if span.closed_by <= last])
        if last > mark.after or self._has_news:
            self._has_news = False
            await self._advance(mark, last, events)

    async def _load(self) -> TraceMark:
        """The saved mark. Without one, tracing begins now: what is over by then is not sent.

        A mark behind the end of the history belongs to another one, which was moved aside.
        """
        found = await self._store.load()
        if found is not None and (found.after == 0 or await self._jobs.records.events(found.after - 1, ())):
            return found
        after = 0
        while events := await self._jobs.records.events(after, ()):
            after = events[-1][0]
        begun = TraceMark(after)
        await self._store.save(begun)
        return begun

    async def _spans(self, mark: TraceMark, events: Sequence[Numbered]) -> list[JobSpan]:
        """Spans that these events complete."""
        found: list[JobSpan] = []
        for job_id in dict.fromkeys(transition.job_id for _, transition in events):
            state = await self._jobs.records.job(job_id)
            *earlier, newest = split_submissions(await self._history(job_id)) or [[]]
            for history in earlier:
                found += job_spans(history, None)
            found += job_spans(newest, state, mark.milestones(job_id))
        last = events[-1][0] if events else mark.after
        return [span for span in found if mark.after < span.closed_by <= last]

    async def _history(self, job_id: str) -> list[Numbered]:
        found: list[Numbered] = []
        for _ in range(_MAX_HISTORY):
            page = await self._jobs.records.events(found[-1][0] if found else 0, (job_id,))
            found += page
            if len(page) < _PAGE:
                break
        return found

    async def _send(self, spans: Sequence[JobSpan]) -> None:
        """Waits until the receiver has the spans, or refuses them."""
        if not spans:
            return
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        self._queue.offer(spans, _SPAN_BYTES * len(spans), lambda: _wake(loop, done))
        await done.wait()

    async def _advance(self, mark: TraceMark, last: int, events: Sequence[Numbered]) -> None:
        mark.after = last
        for number, transition in events:
            if number <= last and transition.after in _ENDED:
                mark.forget(transition.job_id)
        await self._store.save(mark)

    def _report(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._say(f"traces wait: {trouble}")
        self._trouble = trouble


_ENDED = frozenset(map(str, TERMINAL))


def _last_ready(spans: Iterable[JobSpan], last: int, since: int) -> int:
    """Number of the last event up to which nothing waits for a verdict. `since`: older failures get none any more."""
    waiting = [span.closed_by for span in spans if span.awaits_verdict and span.end > since]
    return min([last, *(number - 1 for number in waiting)])


def _wake(loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
    try:
        loop.call_soon_threadsafe(done.set)
    except RuntimeError:  # the loop has ended meanwhile
        return
