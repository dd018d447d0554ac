"""Sends metrics to trackers from a thread, because they use files and servers that no step may wait for."""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

from windlass.train.telemetry.trackers import Tracker, TrackerSpec, open_tracker

_MAX_QUEUED = 1000
"""Maximum queued reports for a slow server; further ones are dropped, and their number is printed at the end."""

_Report = tuple[Mapping[str, float], int]


class TrackerQueue:
    """The queue before the trackers of one run, on its first rank; without trackers it does nothing."""

    def __init__(
        self, specs: Sequence[TrackerSpec], name: str, open_one: Callable[[TrackerSpec, str], Tracker] = open_tracker
    ) -> None:
        self._specs, self._name, self._open = specs, name, open_one
        self._waiting: queue.Queue[_Report | None] = queue.Queue(_MAX_QUEUED)
        self._left_out = 0
        self._thread = threading.Thread(target=self._work, name="trackers", daemon=True)
        if specs:
            self._thread.start()

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Queue values by name after step `step`, without waiting."""
        if self._specs:
            try:
                self._waiting.put_nowait((dict(values), step))
            except queue.Full:
                self._left_out += 1

    def close(self, timeout_s: float) -> None:
        """Wait until all reports are sent, for `timeout_s` seconds at most."""
        if not self._thread.is_alive():
            return
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=timeout_s)
        self._thread.join(timeout_s)
        lost = self._left_out + (self._waiting.qsize() if self._thread.is_alive() else 0)
        if lost:
            _warn(f"{lost} reports were not sent: {', '.join(each.name for each in self._specs)} was too slow")

    def _work(self) -> None:
        trackers = {spec.name: tracker for spec in self._specs if (tracker := self._open_tracker(spec))}
        while (report := self._waiting.get()) is not None:
            for name in list(trackers):
                if not _try(name, lambda name=name, report=report: trackers[name].log(*report)):  # type: ignore[misc]
                    del trackers[name]
        for name, tracker in trackers.items():
            _try(name, tracker.close)

    def _open_tracker(self, spec: TrackerSpec) -> Tracker | None:
        found: list[Tracker] = []
        _try(spec.name, lambda: found.append(self._open(spec, self._name)))
        return found[0] if found else None


def _try(name: str, action: Callable[[], object]) -> bool:
    """Whether the action succeeded. A failure is printed once, and its tracker is dropped."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 - from a third-party library
        _warn(f"{name} is disabled: {type(error).__name__}: {error}")
        return False
    return True


def _warn(text: str) -> None:
    sys.stderr.write(f"windlass: {text}\n")
