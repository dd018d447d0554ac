"""What a cluster answers to the questions of the faces: its objects and pods first, history for what they lack."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.cluster.empty_cluster import bare
from windlass.backends.kubernetes.cluster.job_resolution import singles
from windlass.backends.port import Transition
from windlass.controller import Controller
from windlass.core.model.job import Job
from windlass.core.model.reservation import Reservation
from windlass.core.model.status import TERMINAL, JobState
from windlass.server.data_source import SnapshotFilter
from windlass.server.job_filter import JobFilter
from windlass.server.operator import job_names
from windlass.server.operator.history.databases import HistoryError
from windlass.server.operator.history.entries import StoredLog
from windlass.server.operator.history.store import JobHistory
from windlass.server.operator.members import list_members
from windlass.server.operator.pod_tasks import PodTask, merge_tasks

T = TypeVar("T")
_HIDDEN = "(hidden)"


class ClusterDataSource:
    """`facts.Facts` of a cluster. A job is told as it was committed last.

    When history does not answer, whoever asks for a job hears what its objects say; whoever asks for history, that.
    """

    def __init__(
        self,
        controller: Controller,
        world: KubernetesBackend,
        history: JobHistory,
        settled: Callable[[], Awaitable[None]],
    ) -> None:
        self._controller, self._world, self._history = controller, world, history
        self._settled = settled

    def now(self) -> int:
        """As the world says."""
        return self._world.now()

    def where(self) -> str:
        """The API server: all state is in its objects."""
        return self._world.connection.access.server

    def cluster(self) -> str:
        """How many nodes, and of which API server."""
        count = len(self._world.cluster.picture.objects)
        return f"{count} node{'s' * (count != 1)} of {self.where()}"

    def trouble(self) -> str:
        """Of history."""
        return self._history.trouble

    def shown(self, job: Job) -> Job:
        """Without values of variables, which may be secrets: whoever may read the job's object finds them there."""
        roles = (replace(role, env=dict.fromkeys(role.env, _HIDDEN), pod="") for role in job.roles)
        return replace(job, roles=tuple(roles))

    def is_declared(self, _reservation: Reservation) -> bool:
        """Never: each is an object, and can be deleted."""
        return False

    def surroundings(self, _job: Job, _tasks: Sequence[PodTask]) -> list[str]:
        """What a pod finds is its own image's and its node's."""
        return []

    def bare(self, job: Job) -> SnapshotFilter:
        """Without the pods of others, and with what each node has one of, if the job is the first to ask for it."""
        picture = self._world.cluster.picture
        return bare(tuple(picture.objects.values()), picture.view, singles(job))

    def held(self) -> Sequence[JobState]:
        """Those whose volumes or priority classes are missing."""
        return [gang.state for gang in self._world.jobs if gang.fit.held]

    # --- which jobs --------------------------------------------------------------------------------

    async def settled(self) -> None:
        """Until no commit is under way."""
        await self._settled()

    async def ids(self, name: str) -> list[str]:
        """The id itself, else the only job with that end, here or else in history; an array's jobs. Raises ApiError."""
        text = job_names.normalize_name(name)
        here = {gang.id: gang.job for gang in self._world.jobs}
        here |= {state.id: state.job for state in self._controller.states.values()}
        if members := [job_id for job_id, job in here.items() if _is_of(job_id, job, text)]:
            return members
        if found := job_names.find_candidates(text, here):
            return [job_names.choose_only(text, found)]
        called = [job_id for job_id, job in here.items() if job.name == text]
        kept = [] if called else await self._kept(self._history.ids(text), [])
        if found := called or job_names.find_candidates(text, kept) or (kept if "/" not in text else []):
            return [job_names.choose_only(text, sorted(found))]
        raise job_names.unknown_job(text, [*here, *await self._kept(self._history.names(), [])])

    async def job(self, job_id: str) -> JobState | None:
        """As its object says, else as it was at last."""
        return self._here(job_id) or await self._kept(self._history.job(job_id), None)

    async def ended(self, wanted: JobFilter, limit: int) -> Sequence[JobState]:
        """Those that have ended, the latest to be created first."""
        query = wanted.query(TERMINAL)
        if query is None:
            return []
        here = [state for state in self._ended() if wanted.has(state)]
        found = _each_once([*here, *await self._history.jobs(query, limit)])
        return sorted(found, key=lambda state: -state.status.created_at)[:limit]

    async def history(self, *, name: str, user: str, since: int, limit: int) -> Sequence[JobState]:
        """The last to end first."""
        wanted = {key: value for key, value in (("name", name), ("user", user)) if value}
        here = [state for state in self._ended() if _matches(state, wanted) and _end(state) >= since]
        kept = await self._history.ended(name=name, user=user, since=since, limit=limit)
        return sorted(_each_once([*here, *kept]), key=lambda state: -_end(state))[:limit]

    # --- of one job --------------------------------------------------------------------------------

    async def tasks(self, job_id: str) -> Sequence[PodTask]:
        """The pods there are, and those of which something was written down."""
        state = await self._state(job_id)
        if state is None:
            return []
        seen = [task for task, _ in list_members(self._world, state)]
        return merge_tasks(await self._kept(self._history.tasks(job_id, state.status.created_at), []), seen)

    def ranks_seen(self, state: JobState, _tasks: Sequence[PodTask]) -> list[dict[str, Any]]:
        """What agents in its pods have told."""
        gang = self._world.jobs.get(state.id)
        return self._world.agents.ranks_seen(gang) if gang is not None else []

    async def transitions(self, job_id: str) -> Sequence[Transition]:
        """Oldest first."""
        state = await self._state(job_id)
        if state is None:
            return []
        return await self._kept(self._history.transitions(job_id, state.status.created_at), [])

    async def logs(self, job_id: str) -> Sequence[StoredLog]:
        """The last lines of members that have ended. Raises HistoryError."""
        state = await self._state(job_id)
        return [] if state is None else await self._history.logs(job_id, state.status.created_at)

    async def events(self, after: int, job_ids: Collection[str]) -> Sequence[tuple[int, Transition]]:
        """See `History.events`."""
        return await self._kept(self._history.events(after, job_ids), [])

    # --- plumbing ----------------------------------------------------------------------------------

    async def _state(self, job_id: str) -> JobState | None:
        return self._controller.states.get(job_id) or await self.job(job_id)

    def _here(self, job_id: str) -> JobState | None:
        gang = self._world.jobs.get(job_id)
        return gang.state if gang is not None and (gang.stored is not None or gang.fit.held) else None

    def _ended(self) -> list[JobState]:
        """Those whose objects are still there."""
        states = (gang.state for gang in self._world.jobs if gang.stored is not None)
        return [state for state in states if state.status.phase in TERMINAL]

    async def _kept(self, question: Awaitable[T], otherwise: T) -> T:
        try:
            return await question
        except HistoryError:  # told by whoever writes it
            return otherwise


def _is_of(job_id: str, job: Job, array: str) -> bool:
    """Whether it is one of an array, which is called as its jobs say, with or without their namespace."""
    if job.array is None:
        return False
    return array in (job.array.array_id, f"{job_id.partition('/')[0]}/{job.array.array_id}")


def _matches(state: JobState, wanted: Mapping[str, str]) -> bool:
    said = {"name": state.job.name, "user": state.job.user}
    return all(said[key] == value for key, value in wanted.items())


def _each_once(states: Iterable[JobState]) -> list[JobState]:
    """The first of each."""
    found: dict[tuple[str, int], JobState] = {}
    for state in states:
        found.setdefault((state.id, state.status.created_at), state)
    return list(found.values())


def _end(state: JobState) -> int:
    return state.status.finished_at or 0
