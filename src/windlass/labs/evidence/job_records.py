"""Jobs of a lab's state folder, as typed records: of the running controller, else of the stored ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from windlass.backends.errors import BackendError
from windlass.backends.local.logs import generations, log_files, read_lines
from windlass.backends.local.paths import StatePaths
from windlass.labs.evidence.findings import EvidenceError
from windlass.server.discovery import Source, open_state
from windlass.server.errors import ApiError, ErrorCode

MAX_JOBS = 500
MAX_LOG_LINES = 20_000
"""Lines of the output of one job that a check reads."""


@dataclass(frozen=True, slots=True)
class RankRecord:
    """One start of one rank. `code` and `signal` None: it runs, or its end was not observed."""

    rank: int
    generation: int
    node: str
    replica: int = 0
    pid: int | None = None
    code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class JobTransition:
    """One transition of a job; `at` in ms."""

    at: int
    event: str
    before: str
    after: str
    message: str


@dataclass(frozen=True, slots=True)
class LabJob:
    """A job of the lab. Times in ms since the epoch; None: not yet."""

    id: str
    name: str
    phase: str
    reason: str
    message: str
    queue: str
    ranks: int
    """Number of ranks of the whole gang."""
    replicas: int
    generation: int
    """Number of starts of the gang."""
    failures: int
    """Failures of every class that started the gang again, or ended it."""
    exit_code: int | None
    command: str
    nodes: tuple[str, ...]
    """Nodes of the last generation, each once."""
    starts: tuple[RankRecord, ...]
    transitions: tuple[JobTransition, ...]
    created_at: int | None
    started_at: int | None
    finished_at: int | None

    @property
    def succeeded(self) -> bool:
        """Whether the job has ended with success."""
        return self.phase == "Succeeded"

    def starts_of(self, generation: int) -> tuple[RankRecord, ...]:
        """Returns the ranks of one generation."""
        return tuple(start for start in self.starts if start.generation == generation)


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """A recorded series. `times` in ms; `values` has a row for each time: one value, or one for each rank or GPU."""

    times: tuple[int, ...]
    values: tuple[tuple[float | None, ...], ...]
    unit: str = ""


def read_jobs(state: Path) -> list[LabJob]:
    """Returns the jobs of a state folder, oldest first; none before the first job. Raises EvidenceError."""
    with _records(state) as source:
        if source is None:
            return []
        lines = source.jobs(all="1", limit=MAX_JOBS)
        found = [_job_of(source.job(str(line["id"]))) for line in sorted(lines, key=lambda line: int(line["number"]))]
        return [job for job in found if job is not None]
    return []


def read_series(state: Path, job_id: str) -> dict[str, MetricSeries]:
    """Returns the recorded series of a job by name; {} without telemetry. Raises EvidenceError."""
    with _records(state) as source:
        if source is None:
            return {}
        try:
            series = source.metrics(job_id)["series"]
        except ApiError as error:
            if error.code is ErrorCode.NO_SUCH_JOB:
                raise
            return {}
        return {str(each["series"]): msgspec.convert(each, MetricSeries) for each in series}
    return {}


def read_output(state: Path, job_id: str, rank: int | None, generation: int | None) -> list[str]:
    """Returns the lines of a job's ranks; None: every rank, the latest generation. Raises EvidenceError."""
    paths = StatePaths(state)
    try:
        if generation is None:
            generation = max(generations(paths, job_id), default=0)
        files = log_files(paths, job_id, generation, ranks=None if rank is None else (rank,))
        lines = []
        for line in read_lines(files):
            lines.append(line.text)
            if len(lines) == MAX_LOG_LINES:
                break
    except OSError as error:
        raise _unreadable(str(error)) from None
    return lines


@contextlib.contextmanager
def _records(state: Path) -> Iterator[Source | None]:
    """Opens the records; None before the first job. Their errors become EvidenceError."""
    try:
        source = open_state(state)
    except ApiError as error:
        if error.code is ErrorCode.NO_DAEMON:
            yield None
            return
        raise _unreadable(str(error)) from None
    except (BackendError, OSError) as error:
        raise _unreadable(str(error)) from None
    try:
        with contextlib.closing(source):
            yield source
    except (ApiError, BackendError, OSError, msgspec.ValidationError, KeyError, TypeError, ValueError) as error:
        raise _unreadable(str(error)) from None


def _unreadable(text: str) -> EvidenceError:
    first, _, rest = text.partition("\n")
    return EvidenceError(
        f"the records of the lab's jobs cannot be read: {first}", rest or "begin anew: windlass lab start LAB --fresh"
    )


def _job_of(details: Mapping[str, Any]) -> LabJob | None:
    """Returns the record of a job; None of a schedule."""
    if "status" not in details:
        return None
    status, spec = details["status"], details["spec"]
    starts = msgspec.convert(details["tasks"], tuple[RankRecord, ...])
    return LabJob(
        id=str(details["id"]),
        name=str(details["name"]),
        phase=str(details["phase"]),
        reason=str(details["reason"]),
        message=str(details["message"]),
        queue=str(details["queue"]),
        ranks=int(details["ranks"]),
        replicas=int(details["replicas"]),
        generation=int(status["generation"]),
        failures=sum(int(status[name]) for name in ("user_failures", "infrastructure_failures", "preemptions")),
        exit_code=details["exit_code"],
        command=" ".join(map(str, spec["roles"][0]["command"])),
        nodes=_last_nodes(starts),
        starts=starts,
        transitions=msgspec.convert(details["transitions"], tuple[JobTransition, ...]),
        created_at=details["created_at"],
        started_at=details["started_at"],
        finished_at=details["finished_at"],
    )


def _last_nodes(starts: Sequence[RankRecord]) -> tuple[str, ...]:
    last = max((start.generation for start in starts), default=0)
    return tuple(dict.fromkeys(start.node for start in starts if start.generation == last))
