"""What the local world answers: its database, read at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from windlass.backends.local.backend import LocalBackend
from windlass.backends.local.rank_activity import rank_activity
from windlass.backends.local.state_reader import StateReader, Task, UnknownJobError
from windlass.backends.port import Transition
from windlass.core.model.job import Job
from windlass.core.model.reservation import Reservation
from windlass.core.model.status import TERMINAL, JobState
from windlass.server.data_source import SnapshotFilter
from windlass.server.errors import ApiError, Code
from windlass.server.job_filter import JobFilter
from windlass.server.rank_resources import describe_rank_resources


def resolve_name(records: StateReader, name: str) -> list[str]:
    """The jobs that a name or an id means: one, or an array's members. Raises ApiError."""
    try:
        found = records.resolve(name)
    except UnknownJobError as error:
        raise ApiError(Code.NO_SUCH_JOB, str(error)) from None
    return [found] if records.job(found) else records.members(found)


class LocalDataSource:
    """`facts.Facts` of a state folder."""

    def __init__(self, world: LocalBackend) -> None:
        self._world = world

    def now(self) -> int:
        """As the world says."""
        return self._world.now()

    def where(self) -> str:
        """The state folder."""
        return str(self._world.paths.root)

    def cluster(self) -> str:
        """What was found, or declared."""
        return self._world.cluster.text

    def trouble(self) -> str:
        """What cannot be committed is told with the commits."""
        return ""

    def shown(self, job: Job) -> Job:
        """All of it: only its owner's user gets to the socket."""
        return job

    def is_declared(self, reservation: Reservation) -> bool:
        """Those that people made here are the world's; the others are of the cluster file."""
        return all(kept.name != reservation.name for kept in self._world.reservations)

    def surroundings(self, job: Job, tasks: Sequence[Task]) -> list[str]:
        """Threads and devices."""
        return describe_rank_resources(job, tasks, self._world.cluster)

    def bare(self, _job: Job) -> SnapshotFilter:
        """As it is: nobody else takes anything of declared nodes."""
        return lambda snapshot: snapshot

    def held(self) -> Sequence[JobState]:
        """None: what could never run is refused, and all else is the controller's."""
        return ()

    async def settled(self) -> None:
        """A commit holds the loop: whoever asks comes after it."""

    async def ids(self, name: str) -> list[str]:
        """An id, else the latest job (or array) of that name, else an array's id. Raises ApiError."""
        return resolve_name(self._world.store, name)

    async def job(self, job_id: str) -> JobState | None:
        """By its id."""
        return self._world.store.job(job_id)

    async def ended(self, wanted: JobFilter, limit: int) -> Sequence[JobState]:
        """See `Records.jobs`."""
        query = wanted.query(TERMINAL)
        return self._world.store.jobs(**query, limit=limit) if query else []

    async def history(self, *, name: str, user: str, since: int, limit: int) -> Sequence[JobState]:
        """See `Records.history`."""
        return self._world.store.history(name=name, user=user, since=since, limit=limit)

    async def tasks(self, job_id: str) -> Sequence[Task]:
        """Every rank of every generation."""
        return self._world.store.tasks(job_id)

    def ranks_seen(self, state: JobState, tasks: Sequence[Task]) -> list[dict[str, Any]]:
        """By its agents' boards, and its logs."""
        return rank_activity(self._world.paths, state.job, tasks)

    async def transitions(self, job_id: str) -> Sequence[Transition]:
        """Oldest first."""
        return self._world.store.transitions(job_id)

    async def events(self, after: int, job_ids: Collection[str]) -> Sequence[tuple[int, Transition]]:
        """See `Records.events`."""
        return self._world.store.events(after, job_ids)
