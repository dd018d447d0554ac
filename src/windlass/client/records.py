"""Records that a client returns, checked against their types: jobs, nodes, queues, explanations, lines of output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

import msgspec

from windlass.client.errors import InternalError

T = TypeVar("T")
_TERMINAL = frozenset({"Succeeded", "Failed"})
_SUCCEEDED = "Succeeded"


@dataclass(frozen=True, slots=True)
class JobInfo:
    """A job. Times are milliseconds since the epoch; None: not yet. `members`: the jobs of an array."""

    id: str
    name: str
    phase: str
    queue: str = ""
    user: str = ""
    priority: int = 0
    reason: str = ""
    message: str = ""
    position: int = 0
    """Position in the queue from 1; 0: not in it."""
    eta: int | None = None
    replicas: int = 0
    ranks: int = 0
    nodes: tuple[str, ...] = ()
    attempts: int = 0
    created_at: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    exit_code: int | None = None
    diagnosis: Mapping[str, Any] | None = None
    members: tuple[JobInfo, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The whole answer, as the page of the API describes it."""

    @property
    def has_ended(self) -> bool:
        """Whether the phase is terminal."""
        return self.phase in _TERMINAL

    @property
    def succeeded(self) -> bool:
        """Whether the job has ended with success."""
        return self.phase == _SUCCEEDED


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node: amounts by resource, memory in bytes, CPU in milli-cores."""

    name: str
    state: str
    capacity: Mapping[str, int]
    used: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue: its quota and usage by resource, and its numbers of waiting and running jobs."""

    name: str
    quota: Mapping[str, int]
    used: Mapping[str, int]
    waiting: int
    running: int


@dataclass(frozen=True, slots=True)
class JobExplanation:
    """The reason for the state of a job. `details`: the whole answer, with counts node by node for a pending job."""

    job: JobInfo
    reason: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"{self.job.id} {self.job.phase}{f': {self.message}' if self.message else ''}"


@dataclass(frozen=True, slots=True)
class OutputLine:
    """A line of output of a rank. `at`: milliseconds since the epoch, 0: unknown. On a cluster `stream` is `out`."""

    job: str
    attempt: int
    rank: int
    stream: str
    at: int
    text: str


@dataclass(frozen=True, slots=True)
class ScheduleInfo:
    """A schedule: a job that is submitted again at the times of `cron`. Times and durations are milliseconds."""

    name: str
    cron: str
    time_zone: str
    policy: str
    """Effect of a time at which the previous run has not ended: skip, queue or replace."""
    suspended: bool
    user: str = ""
    queue: str = ""
    next: int | None = None
    """Next time; None while it is suspended."""
    waiting: int | None = None
    """Time of the run that starts when the active one has ended."""
    last_run: int | None = None
    active: tuple[str, ...] = ()
    """Ids of runs that have not ended."""
    missed: int | None = None
    """Times without a run because no daemon ran; None: not counted, as of a CronJob. `skipped`: likewise."""
    skipped: int | None = None
    starting_deadline: int | None = None
    kept_succeeded: int = 0
    kept_failed: int = 0
    created_at: int | None = None
    notes: tuple[Mapping[str, Any], ...] = ()
    """The latest outcomes, oldest first: `at`, `kind` and `message`."""


JobList: TypeAlias = list[JobInfo]
NodeList: TypeAlias = list[NodeInfo]
QueueList: TypeAlias = list[QueueInfo]
ScheduleList: TypeAlias = list[ScheduleInfo]


def job_of(answer: Mapping[str, Any]) -> JobInfo:
    """The job of a line or of details; the one of an array sums up its members. Raises InternalError."""
    if "members" in answer:
        return _array_of(str(answer.get("id")), [job_of(each) for each in answer["members"]])
    known = {name: value for name, value in answer.items() if name not in ("details", "members")}
    return replace(checked(known, JobInfo), details=answer)


def explanation_of(answer: Mapping[str, Any]) -> JobExplanation:
    """The explanation in an answer of `why`. Raises InternalError."""
    job = job_of(answer.get("job") or {})
    return JobExplanation(job, job.reason, job.message, answer)


def checked(answer: object, kind: type[T]) -> T:
    """The answer as a record; unknown fields are left out. Raises InternalError if a field has another type."""
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise InternalError(
            f"the answer is no {kind.__name__}: {error}", "use the same version on both sides"
        ) from None


def _array_of(array_id: str, members: Sequence[JobInfo]) -> JobInfo:
    done = sum(each.succeeded for each in members)
    living = [each.phase for each in members if not each.has_ended]
    phase = ("Running" if "Running" in living else living[0]) if living else _SUCCEEDED
    if not living and done < len(members):
        phase = "Failed"
    return JobInfo(
        array_id,
        members[0].name if members else array_id,
        phase,
        message=f"{done} of {len(members)} jobs have succeeded",
        members=tuple(members),
    )
