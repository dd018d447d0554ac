"""Sets jobs aside that make a turn raise: their events are repeated after a growing wait, and the turn goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from windlass.backends.port import JobArrived, JobChanged, JobEvent, JobRecovered
from windlass.controller.job_timers import earliest
from windlass.core.cycle.scheduler import schedule
from windlass.core.model.gang import EquivalenceClass
from windlass.core.model.snapshot import Snapshot
from windlass.wire import exponential_backoff

_BACKOFF_MS, _MAX_BACKOFF_MS = 1_000, 300_000
"""Milliseconds before a job takes part again; doubled with each failure up to the longest."""
_REMEMBERED_MS = 3_600_000
"""Milliseconds after which a failure no longer lengthens the wait."""

Report: TypeAlias = Callable[[str, Exception], None]
"""Receives a job and its error."""
JobBackendEvent: TypeAlias = JobEvent | JobArrived | JobRecovered | JobChanged
"""The events that concern one job."""


@dataclass(slots=True)
class _JobFault:
    failures: int = 0
    failed_at: int = 0
    due: int | None = None
    """Time of the next attempt in ms; None: it was made."""
    events: list[JobBackendEvent] = field(default_factory=list)
    """Events that the job has not taken yet."""


class JobFaults:
    """The jobs that have made a turn raise. `report`: None lets every error end the turn, as in a simulation."""

    def __init__(self, report: Report | None) -> None:
        self._report = report
        self._faults: dict[str, _JobFault] = {}

    @contextmanager
    def contain(self, job_id: str, now: int, events: Sequence[JobBackendEvent] = ()) -> Iterator[None]:
        """Ends an error of the work for one job, and repeats `events` later."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this job's
            self.add(job_id, now, error, events)

    def add(self, job_id: str, now: int, error: Exception, events: Sequence[JobBackendEvent] = ()) -> None:
        """Sets a job aside. Raises the error if errors are not to be contained."""
        if self._report is None:
            raise error
        fault = self._faults.setdefault(job_id, _JobFault())
        if now - fault.failed_at > _REMEMBERED_MS:
            fault.failures = 0
        fault.due = now + exponential_backoff(fault.failures, _BACKOFF_MS, _MAX_BACKOFF_MS)
        fault.failures, fault.failed_at = fault.failures + 1, now
        fault.events += events
        self._report(job_id, error)

    def take_due(self, now: int) -> Sequence[tuple[str, Sequence[JobBackendEvent]]]:
        """Returns the jobs whose wait is over, with the events that they have not taken."""
        due = [(job_id, fault) for job_id, fault in self._faults.items() if fault.due is not None and fault.due <= now]
        found = [(job_id, fault.events) for job_id, fault in due]
        for _, fault in due:
            fault.due, fault.events = None, []
        for job_id in [each for each, fault in self._faults.items() if _is_over(fault, now)]:
            del self._faults[job_id]
        return found

    def next_due(self) -> int | None:
        """Time in ms at which the next wait is over."""
        return earliest(*(fault.due for fault in self._faults.values()))


def _is_over(fault: _JobFault, now: int) -> bool:
    return fault.due is None and now - fault.failed_at > _REMEMBERED_MS


def job_of(event: JobBackendEvent) -> str:
    """Returns the job that an event concerns."""
    return event.state.id if isinstance(event, JobRecovered) else event.job_id


def find_unschedulable(snapshot: Snapshot, now: int) -> Mapping[str, Exception]:
    """Returns the waiting gangs that make the scheduler raise even alone, each with the error."""
    return dict(_search(snapshot, [single for each in snapshot.classes for single in _split(each)], now))


def _search(snapshot: Snapshot, gangs: Sequence[EquivalenceClass], now: int) -> Iterator[tuple[str, Exception]]:
    """Plans without all other waiting gangs; searches the halves of those that make the scheduler raise."""
    try:
        schedule(replace(snapshot, classes=tuple(gangs)), now)
    except Exception as error:  # noqa: BLE001 - whatever it is, one of these gangs causes it
        if len(gangs) == 1:
            yield gangs[0].gangs[0].id, error
        else:
            middle = len(gangs) // 2
            yield from _search(snapshot, gangs[:middle], now)
            yield from _search(snapshot, gangs[middle:], now)


def _split(each: EquivalenceClass) -> Iterator[EquivalenceClass]:
    """Yields a class of its own for each gang of a class."""
    backfill_keys = {gang.id: key for gang, key in zip(each.backfill, each.backfill_sort_keys, strict=True)}
    for gang, key in zip(each.gangs, each.sort_keys, strict=True):
        yield EquivalenceClass((gang,), (key,), (gang,), (backfill_keys[gang.id],))
