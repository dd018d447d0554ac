"""Protocols of the API's data source, beside the state of a controller: facts of its backend, and records of jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from windlass.backends.port import Transition
from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.job import Job
from windlass.core.model.reservation import Reservation
from windlass.core.model.snapshot import Snapshot
from windlass.core.model.status import JobState
from windlass.server.job_filter import HistoryFilter, JobFilter

SnapshotFilter: TypeAlias = Callable[[Snapshot], Snapshot]


class JobRecords(Protocol):
    """Jobs, ended or not, with their ranks and transitions. Methods raise ApiError, BackendError.

    Queries that may need a database are coroutines.
    """

    async def wait_for_commit(self) -> None:
        """Waits until the controller's decisions are committed: commits may take time."""

    async def ids(self, name: str) -> list[str]:
        """Ids of the jobs that a name or id means: one, or an array's members. Raises ApiError NO_SUCH_JOB."""

    async def job(self, job_id: str) -> JobState | None:
        """A job as it was last committed, ended or not."""

    async def ended(self, job_filter: JobFilter, limit: int) -> Sequence[JobState]:
        """Ended jobs that match a filter, the latest created first."""

    async def history(self, chosen: HistoryFilter) -> Sequence[JobState]:
        """Ended jobs that match a filter, the last to end first."""

    async def tasks(self, job_id: str) -> Sequence[Any]:
        """Ranks or pods of every generation, in order, as dataclasses."""

    async def last_nodes(self, states: Sequence[JobState]) -> Mapping[str, list[str]]:
        """Nodes of the last attempt of jobs, by id; jobs that have held none are left out."""

    def ranks_seen(self, state: JobState, tasks: Sequence[Any]) -> list[dict[str, Any]]:
        """Observations of the job's ranks, as `progress` reads them; empty if there are none."""

    async def transitions(self, job_id: str) -> Sequence[Transition]:
        """Transitions of the job, oldest first."""

    async def events(self, after: int, job_ids: Collection[str]) -> Sequence[tuple[int, Transition]]:
        """Transitions after event number `after` with their numbers, oldest first. No ids: of all jobs."""


class DataSource(Protocol):
    """Facts of a backend, and its job records. Methods raise ApiError, BackendError."""

    @property
    def records(self) -> JobRecords:
        """The jobs of the backend."""

    def now(self) -> int:
        """Time of the backend's clock: milliseconds since the epoch."""

    def location(self) -> str:
        """Location of the state: a folder, or the address of an API server."""

    def cluster(self) -> str:
        """Description of the cluster in one line."""

    def trouble(self) -> str:
        """Part of the state that cannot be read or written at present; empty if there is none."""

    def redact(self, job: Job) -> Job:
        """The job without fields that not every user of the API may see."""

    def is_declared(self, reservation: Reservation) -> bool:
        """Whether the cluster's description declares the reservation, so that `windlass reserve` cannot delete it."""

    def rank_resources(self, state: JobState, tasks: Sequence[Any]) -> list[str]:
        """Description of the threads and devices of the job's ranks, in lines."""

    def without_others(self) -> SnapshotFilter:
        """A function that removes external pods from a snapshot, to tell whether a job can ever run."""

    def member_wait(self, job_id: str) -> tuple[str, str] | None:
        """Why members of a started job do not run yet, as a word and a sentence; None if nothing is known."""

    def wait_verdict(self, job_id: str) -> DiagnosedCause | None:
        """Verdict on what keeps a job from running for longer than a short time; None without one."""

    def held_jobs(self) -> Sequence[JobState]:
        """Jobs that the controller does not know yet, because an object that they need is missing."""
