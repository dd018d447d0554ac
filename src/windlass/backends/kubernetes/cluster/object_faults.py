"""Contains the faults of single objects: an exception while one object is processed concerns that object alone.

Everything that watches, turns and commits do for one object runs within `ObjectFaults.contain`. An exception is counted
by kind, reported on the object at a bounded rate, and the work is repeated with backoff, or when the object changes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import nsmallest
from typing import NamedTuple

from windlass.backends.kubernetes.client.object_reference import ObjectReference
from windlass.backends.kubernetes.client.resources import Resource
from windlass.wire import exponential_backoff

_BACKOFF_MS, _MAX_BACKOFF_MS = 1_000, 300_000
"""Milliseconds before the work is repeated; doubled with each failure up to the longest."""
_REPORT_INTERVAL_MS = 600_000
"""Milliseconds between two reports on one object."""
_MAX_REPORTS, _REPORT_WINDOW_MS = 60, 60_000
"""Maximum number of reports on all objects together in so many ms."""
_MAX_FAULTS = 10_000
"""Maximum number of faults that are remembered; beyond it the oldest is repeated only when its object changes."""
_RETRIES_AT_ONCE = 64
_MAX_SHOWN_CHARS = 300


class _Key(NamedTuple):
    resource: Resource
    namespace: str
    name: str
    activity: str


@dataclass(slots=True)
class _ObjectFault:
    """A fault that is not over."""

    about: ObjectReference
    retry: Callable[[], None]
    failures: int = 0
    due: int | None = None
    """Time of the next retry in ms; None while the outcome of a retry is not known."""
    reported_at: int | None = None


class ObjectFaults:
    """The objects of which some work has failed, and their retries. `now` in ms.

    Every `with faults.contain(...)` block ends an exception of its work. `report` is called at a bounded rate.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self.report: Callable[[ObjectReference, str], None] = lambda _about, _sentence: None
        """Called with an object and a sentence for its owner."""
        self._faults: dict[_Key, _ObjectFault] = {}
        self._noted: dict[tuple[Resource, str, str], int] = {}
        """Time of the last report of `note` on an object."""
        self._reports: deque[int] = deque(maxlen=_MAX_REPORTS)
        self.counts: Counter[str] = Counter()
        """Faults so far by kind of object."""

    def __len__(self) -> int:
        return len(self._faults)

    @property
    def due(self) -> int | None:
        """Time of the next retry in ms; None if there is none."""
        return min((fault.due for fault in self._faults.values() if fault.due is not None), default=None)

    def contain(self, about: ObjectReference, activity: str, retry: Callable[[], None]) -> Containment:
        """Returns a context in which the work of one object may raise any exception: it ends there.

        `activity`: a verb that tells this work from other work for the same object ("read", "place"). `retry`: makes
        the same work run again, in such a context.
        """
        return Containment(self, _Key(about.resource, about.namespace, about.name, activity), about, retry)

    def note(self, about: ObjectReference, sentence: str) -> None:
        """Counts and reports a fault that only a change of the object can end."""
        self.counts[about.resource.kind] += 1
        key, now = (about.resource, about.namespace, about.name), self._now()
        last = self._noted.pop(key, None)
        is_due = last is None or now - last >= _REPORT_INTERVAL_MS
        self._noted[key] = now if is_due or last is None else last
        if len(self._noted) > _MAX_FAULTS:
            del self._noted[next(iter(self._noted))]
        if is_due:
            self._tell(about, sentence)

    def retry_due(self, now: int) -> bool:
        """Repeats the work that is due. Returns whether there was any."""
        due = [(at, key) for key, fault in self._faults.items() if (at := fault.due) is not None and at <= now]
        for _, key in nsmallest(_RETRIES_AT_ONCE, due, key=lambda each: each[0]):
            fault = self._faults[key]
            fault.due = None
            try:
                fault.retry()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this object's
                self.add(key, fault.about, fault.retry, error)
        return bool(due)

    def end(self, key: _Key) -> None:
        """Records that the work of an object has succeeded."""
        if self._faults:
            self._faults.pop(key, None)

    def add(self, key: _Key, about: ObjectReference, retry: Callable[[], None], error: Exception) -> None:
        """Records that the work of an object has failed."""
        fault = self._faults.setdefault(key, _ObjectFault(about, retry))
        fault.about, fault.retry = about, retry
        now = self._now()
        fault.due = now + exponential_backoff(fault.failures, _BACKOFF_MS, _MAX_BACKOFF_MS)
        fault.failures += 1
        self.counts[about.resource.kind] += 1
        if fault.reported_at is None or now - fault.reported_at >= _REPORT_INTERVAL_MS:
            fault.reported_at = now
            text = f"{type(error).__name__}: {error}"[:_MAX_SHOWN_CHARS]
            self._tell(about, f"cannot be used and is left out; it is tried again ({key.activity}): {text}")
        if len(self._faults) > _MAX_FAULTS:
            del self._faults[next(iter(self._faults))]

    def _tell(self, about: ObjectReference, sentence: str) -> None:
        now = self._now()
        if len(self._reports) == _MAX_REPORTS and now - self._reports[0] < _REPORT_WINDOW_MS:
            return
        self._reports.append(now)
        self.report(about, sentence)


@dataclass(frozen=True, slots=True)
class Containment:
    """Context of the work of one object. See `ObjectFaults.contain`."""

    faults: ObjectFaults
    key: _Key
    about: ObjectReference
    retry: Callable[[], None]

    def __enter__(self) -> None:
        """Begins the work."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        """Ends the work, and its exception unless that is a cancellation or an exit."""
        if error is None:
            self.faults.end(self.key)
        elif isinstance(error, Exception):
            self.faults.add(self.key, self.about, self.retry, error)
            return True
        return False
