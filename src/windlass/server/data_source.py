"""What the faces must know of a world beside what its controller holds: the same questions of either."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from windlass.backends.port import Transition
from windlass.core.model.job import Job
from windlass.core.model.reservation import Reservation
from windlass.core.model.snapshot import Snapshot
from windlass.core.model.status import JobState
from windlass.server.job_filter import JobFilter

SnapshotFilter = Callable[[Snapshot], Snapshot]


class DataSource(Protocol):
    """Questions that a database may have to answer are awaited. Methods raise ApiError, WorldError."""

    def now(self) -> int:
        """Milliseconds since the epoch, as the world counts them."""

    def where(self) -> str:
        """Where the state is kept: a folder, or an API server."""

    def cluster(self) -> str:
        """The cluster in one line, for people."""

    def trouble(self) -> str:
        """What of it cannot be read or written just now, "" if all can."""

    def shown(self, job: Job) -> Job:
        """The job without what is not for everybody who can ask."""

    def is_declared(self, reservation: Reservation) -> bool:
        """Whether it stands in the cluster's own description, where `windlass reserve` cannot delete it."""

    def surroundings(self, job: Job, tasks: Sequence[Any]) -> list[str]:
        """What the ranks of the job find around them, a line each."""

    def bare(self, job: Job) -> SnapshotFilter:
        """How a snapshot becomes the cluster with nothing on it that is not ours: what can ever be, for this job."""

    def held(self) -> Sequence[JobState]:
        """Jobs of which the controller is yet to hear: something that they need is not there; each says what."""

    async def settled(self) -> None:
        """Until what the controller has decided is on record as well: where a commit takes time it is ahead of it."""

    async def ids(self, name: str) -> list[str]:
        """The jobs that a name or an id means: one, or an array's members. Raises ApiError NO_SUCH_JOB."""

    async def job(self, job_id: str) -> JobState | None:
        """A job as it was last committed, ended ones too."""

    async def ended(self, wanted: JobFilter, limit: int) -> Sequence[JobState]:
        """Of the jobs that have ended those that are wanted, the latest to come first."""

    async def history(self, *, name: str, user: str, since: int, limit: int) -> Sequence[JobState]:
        """Jobs that have ended at or after `since` (ms), the last to end first."""

    async def tasks(self, job_id: str) -> Sequence[Any]:
        """The ranks (or pods) of every generation, in order; plain dataclasses."""

    def ranks_seen(self, state: JobState, tasks: Sequence[Any]) -> list[dict[str, Any]]:
        """What is seen of the ranks of a job, see `progress`; empty where nothing is."""

    async def transitions(self, job_id: str) -> Sequence[Transition]:
        """The job's history, oldest first."""

    async def events(self, after: int, job_ids: Collection[str]) -> Sequence[tuple[int, Transition]]:
        """The history of some jobs (none named: of all) from event number `after` on, oldest first, with numbers."""
