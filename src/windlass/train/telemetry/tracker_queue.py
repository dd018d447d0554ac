"""Sends metrics to trackers from threads, because they use files and servers that no step may wait for."""

from __future__ import annotations

import contextlib
import math
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from windlass.train.telemetry.trackers import Tracker, TrackerSpec, open_tracker

_MAX_QUEUED = 1000
"""Maximum queued reports for a slow server; further ones are dropped, and their number is printed at the end."""
_FIRST_DELAY_S, _MAX_DELAY_S = 1.0, 60.0
"""Delay before a failed call is repeated; it doubles."""
_MAX_ATTEMPTS = 10
"""Attempts to send one report, in about five minutes: one that is always refused must not stop those behind it."""

_Report = tuple[Mapping[str, float], int]
_OpenTracker = Callable[[TrackerSpec, str], Tracker]


class TrackerQueue:
    """The trackers of one run, on its first rank, with a queue and a thread each."""

    def __init__(self, specs: Sequence[TrackerSpec], name: str, open_one: _OpenTracker = open_tracker) -> None:
        self._senders = [_Sender(spec, name, open_one) for spec in specs]

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Queue values by name after step `step`, without waiting."""
        for sender in self._senders:
            sender.put((dict(values), step))

    def close(self, timeout_s: float) -> None:
        """Wait until all reports are sent, for `timeout_s` seconds at most. Failed calls are not repeated any more."""
        until = time.monotonic() + timeout_s
        for sender in self._senders:
            sender.end()
        for sender in self._senders:
            sender.join(max(0.0, until - time.monotonic()))


class _Sender:
    """The queue and the thread of one tracker. Failed calls are repeated with exponential backoff."""

    def __init__(self, spec: TrackerSpec, name: str, open_one: _OpenTracker) -> None:
        self._spec, self._name, self._open = spec, name, open_one
        self._waiting: queue.Queue[_Report | None] = queue.Queue(_MAX_QUEUED)
        self._is_ending = threading.Event()
        self._failure = ""
        self._lost = 0
        self._thread = threading.Thread(target=self._work, name=f"tracker {spec.name}", daemon=True)
        self._thread.start()

    def put(self, report: _Report) -> None:
        """Queue a report, or count it as lost where the queue is full."""
        try:
            self._waiting.put_nowait(report)
        except queue.Full:
            self._lost += 1

    def end(self) -> None:
        """Ask the thread to end after the reports that are queued."""
        self._is_ending.set()
        with contextlib.suppress(queue.Full):  # the thread then finds reports, and does not wait
            self._waiting.put_nowait(None)

    def join(self, timeout_s: float) -> None:
        """Wait for the end of the thread, and print the number of reports that were not sent."""
        self._thread.join(timeout_s)
        lost = self._lost + sum(each is not None for each in list(self._waiting.queue))
        if lost:
            cause = f"has failed: {self._failure}" if self._failure else "was too slow"
            _warn(f"{lost} reports were not sent: {self._spec.name} {cause}")

    def _work(self) -> None:
        found: list[Tracker] = []
        if not self._repeat(lambda: found.append(self._open(self._spec, self._name)), math.inf):
            return
        while (report := self._next()) is not None:
            if not self._repeat(lambda report=report: found[0].log(*report), _MAX_ATTEMPTS):  # type: ignore[misc]
                self._lost += 1
        self._repeat(found[0].close, 1)

    def _next(self) -> _Report | None:
        try:
            return self._waiting.get(block=not self._is_ending.is_set())
        except queue.Empty:
            return None

    def _repeat(self, call: Callable[[], object], attempts: float) -> bool:
        """Whether the call succeeds at last. There is one attempt once the run ends. The first failure is printed."""
        delay, attempt = _FIRST_DELAY_S, 0
        while attempt < attempts:
            is_ending = self._is_ending.is_set()
            try:
                call()
            except Exception as error:  # noqa: BLE001 - from a third-party library
                self._note(f"{type(error).__name__}: {error}")
            else:
                return True
            if is_ending:
                break
            self._is_ending.wait(delay)
            delay, attempt = min(_MAX_DELAY_S, 2 * delay), attempt + 1
        return False

    def _note(self, failure: str) -> None:
        if not self._failure:
            _warn(f"{self._spec.name}: {failure}; retrying, training continues")
        self._failure = failure


def _warn(text: str) -> None:
    sys.stderr.write(f"windlass: {text}\n")
