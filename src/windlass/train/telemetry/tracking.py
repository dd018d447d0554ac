"""Trackers are told from a thread: they talk to files and servers, and no step waits for those."""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

from windlass.train.telemetry.trackers import Tracker, Wanted, opened

_KEPT = 1000
"""Reports that wait for a slow server; what comes when they are so many is left out, and said at the end."""

_Report = tuple[Mapping[str, float], int]


class Tracking:
    """The trackers of one run, on its first rank; without any it does nothing."""

    def __init__(self, asked: Sequence[Wanted], name: str, open_one: Callable[[Wanted, str], Tracker] = opened) -> None:
        self._asked, self._name, self._open = asked, name, open_one
        self._waiting: queue.Queue[_Report | None] = queue.Queue(_KEPT)
        self._left_out = 0
        self._thread = threading.Thread(target=self._work, name="trackers", daemon=True)
        if asked:
            self._thread.start()

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Values by name, after so many steps. Never waits."""
        if self._asked:
            try:
                self._waiting.put_nowait((dict(values), step))
            except queue.Full:
                self._left_out += 1

    def close(self, patience: float) -> None:
        """Wait until all is told, for so many seconds at most."""
        if not self._thread.is_alive():
            return
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=patience)
        self._thread.join(patience)
        lost = self._left_out + (self._waiting.qsize() if self._thread.is_alive() else 0)
        if lost:
            _say(f"{lost} reports did not come through: {', '.join(each.name for each in self._asked)} took too long")

    def _work(self) -> None:
        trackers = {asked.name: tracker for asked in self._asked if (tracker := self._opened(asked))}
        while (report := self._waiting.get()) is not None:
            for name in list(trackers):
                if not _tried(name, lambda name=name, report=report: trackers[name].log(*report)):  # type: ignore[misc]
                    del trackers[name]
        for name, tracker in trackers.items():
            _tried(name, tracker.close)

    def _opened(self, asked: Wanted) -> Tracker | None:
        found: list[Tracker] = []
        _tried(asked.name, lambda: found.append(self._open(asked, self._name)))
        return found[0] if found else None


def _tried(name: str, action: Callable[[], object]) -> bool:
    """Whether it went well. What goes wrong is told once, and that tracker is not asked again."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 - of libraries that are not ours
        _say(f"{name} is told no more: {type(error).__name__}: {error}")
        return False
    return True


def _say(text: str) -> None:
    sys.stderr.write(f"windlass: {text}\n")
