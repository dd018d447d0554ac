"""The API's data source for a state folder: its database, read synchronously."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from windlass.backends.local import name_resolution
from windlass.backends.local.backend import LocalBackend
from windlass.backends.local.rank_activity import rank_activity
from windlass.backends.local.state_reader import StateReader, Task
from windlass.backends.port import Transition
from windlass.core.model.job import Job
from windlass.core.model.reservation import Reservation
from windlass.core.model.status import TERMINAL, JobState
from windlass.server.data_source import SnapshotFilter
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.job_filter import HistoryFilter, JobFilter
from windlass.server.rank_resources import describe_rank_resources


def resolve_name(records: StateReader, name: str) -> list[str]:
    """Ids of the jobs that a name or id means: one, or an array's members. Raises ApiError."""
    try:
        found = name_resolution.resolve(records, name)
    except name_resolution.NameResolutionError as error:
        raise ApiError(ErrorCode.NO_SUCH_JOB, str(error)) from None
    return [found] if records.job(found) else name_resolution.array_members(records, found)


class LocalJobRecords:
    """The interface `data_source.JobRecords` for a state folder."""

    def __init__(self, backend: LocalBackend) -> None:
        self._backend = backend

    async def wait_for_commit(self) -> None:
        """Returns at once: a commit blocks the loop, so every query comes after it."""

    async def ids(self, name: str) -> list[str]:
        """Ids that a name or id means; see `name_resolution.resolve`. Raises ApiError."""
        return resolve_name(self._backend.store, name)

    async def job(self, job_id: str) -> JobState | None:
        """A job by its id."""
        return self._backend.store.job(job_id)

    async def ended(self, job_filter: JobFilter, limit: int) -> Sequence[JobState]:
        """Ended jobs; see `StateReader.jobs`."""
        query = None if job_filter.namespace else job_filter.query(TERMINAL)
        return self._backend.store.jobs(**query, limit=limit) if query else []

    async def history(self, chosen: HistoryFilter) -> Sequence[JobState]:
        """Ended jobs; see `StateReader.history`. None is in a namespace."""
        if chosen.namespace or chosen.visible is not None:
            return []
        about = {"since": chosen.since, "limit": chosen.limit}
        return self._backend.store.history(name=chosen.name, user=chosen.user, **about)

    async def tasks(self, job_id: str) -> Sequence[Task]:
        """Ranks of every generation."""
        return self._backend.store.tasks(job_id)

    async def last_nodes(self, states: Sequence[JobState]) -> Mapping[str, list[str]]:
        """Nodes of the last attempt of jobs, by id."""
        return self._backend.store.last_nodes([state.id for state in states])

    def ranks_seen(self, state: JobState, tasks: Sequence[Task]) -> list[dict[str, Any]]:
        """Progress of ranks from the status files of agents and from logs."""
        return rank_activity(self._backend.paths, state.job, tasks)

    async def transitions(self, job_id: str) -> Sequence[Transition]:
        """Transitions, oldest first."""
        return self._backend.store.transitions(job_id)

    async def events(self, after: int, job_ids: Collection[str]) -> Sequence[tuple[int, Transition]]:
        """Numbered transitions; see `StateReader.events`."""
        return self._backend.store.events(after, job_ids)


class LocalDataSource:
    """The interface `data_source.DataSource` for a state folder."""

    def __init__(self, backend: LocalBackend) -> None:
        self._backend = backend
        self._cluster_since = backend.now()
        self.records = LocalJobRecords(backend)

    def now(self) -> int:
        """Time of the backend's clock, in ms."""
        return self._backend.now()

    def location(self) -> str:
        """Path of the state folder."""
        return str(self._backend.paths.root)

    def cluster(self) -> str:
        """Description of the found or declared nodes."""
        return self._backend.cluster.text

    def trouble(self) -> str:
        """Empty: failed commits are reported by the feed."""
        return ""

    def redact(self, job: Job) -> Job:
        """The whole job: only the user of the state folder can connect to the socket."""
        return job

    def is_declared(self, reservation: Reservation) -> bool:
        """Whether a reservation comes from the cluster file and not from `windlass reserve`."""
        return all(each.name != reservation.name for each in self._backend.reservations)

    def rank_resources(self, state: JobState, tasks: Sequence[Task]) -> list[str]:
        """Lines on threads and devices."""
        return describe_rank_resources(state, tasks, self._backend.cluster, self._cluster_since)

    def without_others(self) -> SnapshotFilter:
        """The snapshot itself: only our jobs use declared nodes."""
        return lambda snapshot: snapshot

    def member_wait(self, _job_id: str) -> None:
        """Nothing: processes start at once."""

    def wait_verdict(self, _job_id: str) -> None:
        """Nothing: a job that can never start is refused."""

    def held_jobs(self) -> Sequence[JobState]:
        """Empty: the controller knows every job."""
        return ()
