"""Spans of a job's life, as a pure function of its transitions: the job, its waits in the queue, and its attempts.

Ids are hashes of the job's id and of the time of its submission, so that every controller that exports a span gives it
the same id. A span is complete with one transition, whose number it carries: exporters send it when they pass that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from windlass.backends.port import Transition
from windlass.core.model.status import CANCELLED, TERMINAL, JobState, Phase

Attributes: TypeAlias = Mapping[str, str | int | float | bool]
Numbered: TypeAlias = tuple[int, Transition]
"""A transition with its number in the history."""
JOB, QUEUE, ATTEMPT = "windlass.job", "windlass.queue", "windlass.attempt"
"""Names of spans."""
_ARRIVED, _STARTED, _DIAGNOSED, _GANG_GONE, _RECOVERED = "Arrived", "Started", "Diagnosed", "GangGone", "Recovered"
_ENDED = frozenset(map(str, TERMINAL))
_NO_FAILURES = ("Completing", "Succeeded", "StepSucceeded", CANCELLED, "Suspended", "Resized", "Preempted")
"""Reasons for which an attempt ends without a failure."""
_MARKS: Mapping[str, str] = {
    Phase.QUEUED: "queued",
    Phase.ADMITTED: "bound",
    Phase.RUNNING: "running",
    Phase.SUSPENDED: "suspended",
}
"""Name of the moment at which a job comes into a phase."""


@dataclass(frozen=True, slots=True)
class Milestone:
    """A moment of training, as ranks report it: "first step", or "checkpoint". `at` in ms."""

    at: int
    name: str
    step: int = 0


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """A moment within a span. `at` in ms."""

    at: int
    name: str
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobSpan:
    """One complete span. Times in ms; `error`: what went wrong, empty if nothing did."""

    name: str
    trace_id: int
    span_id: int
    parent_id: int | None
    start: int
    end: int
    closed_by: int
    """Number of the transition that completes it."""
    attributes: Attributes
    events: Sequence[SpanEvent] = ()
    error: str = ""
    awaits_verdict: bool = False
    """Whether a diagnosis of the failure may still come."""


def job_spans(
    history: Sequence[Numbered], state: JobState | None, milestones: Sequence[Milestone] = ()
) -> list[JobSpan]:
    """Every complete span of the job, the job's own last. `history`: of one submission, in order of the numbers.

    `state`: for the attributes; None if the job is not known any more.
    """
    if not history:
        return []
    first = history[0][1]
    created = first.at if first.event == _ARRIVED or state is None else state.status.created_at
    parts = [*_waits(history), *_attempts(history, milestones)]
    whole = _whole_job(history, created, parts)
    return [_span(first.job_id, created, part, state) for part in (*parts, *whole)]


def split_submissions(history: Sequence[Numbered]) -> list[list[Numbered]]:
    """Transitions of one id by submission: a cluster may use an id again."""
    found: list[list[Numbered]] = []
    for each in history:
        if not found or each[1].event == _ARRIVED:
            found.append([])
        found[-1].append(each)
    return found


@dataclass(frozen=True, slots=True)
class _Part:
    """A span before it has ids. `number`: among those of its name."""

    name: str
    number: int
    start: int
    end: int
    closed_by: int
    attributes: Attributes = field(default_factory=dict)
    events: Sequence[SpanEvent] = ()
    error: str = ""
    awaits_verdict: bool = False


def _span(job_id: str, created: int, part: _Part, state: JobState | None) -> JobSpan:
    own, root = (_hash(job_id, created, *each) for each in ((part.name, part.number), (JOB, 0)))
    return JobSpan(
        part.name,
        _hash(job_id, created, size=16),
        own,
        None if part.name == JOB else root,
        part.start,
        part.end,
        part.closed_by,
        {**_attributes(job_id, state), **part.attributes},
        part.events,
        part.error,
        part.awaits_verdict,
    )


def _hash(*parts: object, size: int = 8) -> int:
    """An id of `size` bytes; never 0, which is no id."""
    return int.from_bytes(hashlib.sha256("\0".join(map(str, parts)).encode()).digest()[:size]) or 1


def _attributes(job_id: str, state: JobState | None) -> dict[str, str | int]:
    found: dict[str, str | int] = {"windlass.job.id": job_id}
    if state is not None:
        job = state.job
        found |= {"windlass.job.name": job.name, "windlass.queue.name": job.queue, "user.name": job.user}
        found |= {"windlass.job.members": job.members, "windlass.job.ranks": job.world_size}
    if "/" in job_id:
        found["k8s.namespace.name"] = job_id.partition("/")[0]
    return found


def _waits(history: Sequence[Numbered]) -> Iterator[_Part]:
    """Each stay in the queue."""
    start: int | None = None
    number = 0
    for closing, each in history:
        if start is None and each.after == Phase.QUEUED:
            start, number = each.at, number + 1
        elif start is not None and each.after != Phase.QUEUED:
            yield _Part(QUEUE, number, start, each.at, closing)
            start = None


def _attempts(history: Sequence[Numbered], milestones: Sequence[Milestone]) -> Iterator[_Part]:
    """Each stay on nodes, from the launch until the last process is gone, or until the next launch."""
    own: list[Transition] = []
    number = 0
    for place, (closing, each) in enumerate(history):
        launches = each.after == Phase.ADMITTED and each.before != Phase.ADMITTED
        if own:
            own.append(each)
            if each.event == _GANG_GONE or launches or each.after in (*_ENDED, Phase.QUEUED, Phase.SUSPENDED):
                verdict = _find_verdict(history[place + 1 :], number)
                yield _attempt(number, own, closing, verdict, milestones)
                own = []
        if not own and launches:
            own, number = [each], number + 1


def _find_verdict(later: Sequence[Numbered], number: int) -> Transition | None:
    begin = f"attempt {number}: "
    return next((each for _, each in later if each.event == _DIAGNOSED and each.message.startswith(begin)), None)


def _attempt(
    number: int, own: Sequence[Transition], closing: int, verdict: Transition | None, milestones: Sequence[Milestone]
) -> _Part:
    start, end, stop = own[0].at, own[-1].at, _find_stop(own)
    reason, _, message = stop.message.partition(": ")
    error = "" if reason in _NO_FAILURES else message or reason
    attributes: dict[str, str | int] = {"windlass.attempt": number, "windlass.attempt.end": reason}
    events = [*_progress(own), *(_milestone(each) for each in milestones if start <= each.at <= end)]
    if error:
        attributes["error.type"] = reason
        failure: dict[str, str] = {"error.type": reason, "exception.message": error}
        if verdict is not None:
            failure["windlass.verdict"] = verdict.message.partition(": ")[2]
        events.append(SpanEvent(stop.at, "failure", failure))
    ordered = sorted(events, key=lambda event: event.at)
    return _Part(
        ATTEMPT, number, start, end, closing, attributes, ordered, error, awaits_verdict=bool(error) and verdict is None
    )


def _find_stop(own: Sequence[Transition]) -> Transition:
    """The first transition with the reason for which the attempt has ended."""
    decisive = next((each for each in own[1:] if each.after == Phase.RESTARTING), own[-1])
    return next(each for each in own[1:] if each.message == decisive.message)


def _progress(own: Sequence[Transition]) -> Iterator[SpanEvent]:
    """The start of all members, and repairs by the agents."""
    for each in own:
        if each.event == _STARTED:
            yield SpanEvent(each.at, "running")
        elif each.event == _RECOVERED:
            yield SpanEvent(each.at, "repaired in place", {"windlass.message": each.message})


def _milestone(found: Milestone) -> SpanEvent:
    return SpanEvent(found.at, found.name, {"windlass.step": found.step})


def _whole_job(history: Sequence[Numbered], created: int, parts: Sequence[_Part]) -> Iterator[_Part]:
    """The job's own span, once it has ended: with each phase that it came into, and its failures."""
    end = next((each for each in history if each[1].after in _ENDED), None)
    if end is None:
        return
    closing, last = end
    reason, _, message = last.message.partition(": ")
    is_cancelled, failed = reason == CANCELLED, last.after == Phase.FAILED and reason != CANCELLED
    marks = [
        SpanEvent(each.at, _MARKS[each.after])
        for _, each in history
        if each.after in _MARKS and each.before != each.after
    ]
    failures = [event for part in parts for event in part.events if event.name == "failure"]
    events = [SpanEvent(created, "submitted"), *marks, *failures]
    attributes = {"windlass.job.phase": CANCELLED if is_cancelled else last.after}
    if failed:
        attributes["error.type"] = reason
    ordered = sorted(events, key=lambda event: event.at)
    yield _Part(JOB, 0, created, last.at, closing, attributes, ordered, (message or reason) if failed else "")
