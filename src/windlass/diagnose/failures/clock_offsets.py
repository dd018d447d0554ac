"""Aligns the clocks of logs by events that they share, and completes times without a year."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from statistics import median_low

from windlass.diagnose.failures.evidence import Fact
from windlass.diagnose.failures.log_scan import LogFindings

_YEAR_MS = 366 * 86_400_000
_LEAST_OFFSET_MS = 300_000
"""Clocks that differ by less stay as they are: ranks report one event minutes apart."""
_AGREEMENT_MS = 120_000
"""Largest difference between the offset at the start and the offset at the end of one clock."""
_SHARED = ("nccl-watchdog-timeout", "gloo-timeout", "nccl-collective-mismatch", "tcpstore-wait-timeout")
"""Rules whose events happen on all ranks at one moment."""


def aligned_facts(logs: Sequence[LogFindings]) -> list[tuple[Fact, int]]:
    """The facts of all logs on the clock of the log with the most of them, each with the number of its signature."""
    year = _latest_year(logs)
    complete = [_with_year(log, year) for log in logs]
    offsets = clock_offsets(complete)
    return [
        (replace(fact, time=None if fact.time is None else fact.time - offsets[log.source.name]), signature)
        for log in complete
        for fact, signature in log.facts
    ]


def clock_offsets(logs: Sequence[LogFindings]) -> Mapping[str, int]:
    """Milliseconds by which the clock of each log is ahead of the reference; 0 where nothing proves a difference."""
    timed = [log for log in logs if log.first_time is not None]
    reference = max(timed, key=lambda log: (len(log.facts), -timed.index(log)), default=None)
    return {log.source.name: _offset(log, reference) if reference else 0 for log in logs}


def _offset(log: LogFindings, reference: LogFindings) -> int:
    ahead = _shared_event_offset(log, reference)
    if ahead is None:
        ahead = _span_offset(log, reference)
    return ahead if ahead is not None and abs(ahead) >= _LEAST_OFFSET_MS else 0


def _shared_event_offset(log: LogFindings, reference: LogFindings) -> int | None:
    """Median difference of the events that both logs report: one collective's timeout on two ranks."""
    here, there = _shared_events(log), _shared_events(reference)
    differences = [here[key] - there[key] for key in sorted(here.keys() & there.keys())]
    return median_low(differences) if differences else None


def _shared_events(log: LogFindings) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for fact, _ in log.facts:
        if fact.rule in _SHARED and fact.time is not None:
            found.setdefault((fact.rule, fact.values.get("seq", "")), fact.time)
    return found


def _span_offset(log: LogFindings, reference: LogFindings) -> int | None:
    """Difference of the start and of the end of two logs, where both are the same: ranks start and end together."""
    if None in (log.first_time, log.last_time, reference.first_time, reference.last_time):
        return None
    start = (log.first_time or 0) - (reference.first_time or 0)
    end = (log.last_time or 0) - (reference.last_time or 0)
    return start if abs(start - end) <= _AGREEMENT_MS else None


def _latest_year(logs: Sequence[LogFindings]) -> int:
    """Start of the year of the latest complete time, in milliseconds since the epoch; 0 where no time has a year."""
    times = [log.last_time for log in logs if log.last_time is not None and log.last_time >= _YEAR_MS]
    times += [fact.time for log in logs for fact, _ in log.facts if fact.time is not None and fact.time >= _YEAR_MS]
    return _start_of_year(max(times, default=0))


def _start_of_year(time: int) -> int:
    return int(datetime(datetime.fromtimestamp(time / 1000, UTC).year, 1, 1, tzinfo=UTC).timestamp()) * 1000


def _with_year(log: LogFindings, year: int) -> LogFindings:
    def complete(time: int | None) -> int | None:
        return time + year if time is not None and time < _YEAR_MS else time

    facts = [(replace(fact, time=complete(fact.time)), signature) for fact, signature in log.facts]
    return replace(log, facts=facts, first_time=complete(log.first_time), last_time=complete(log.last_time))
