"""The jobs of a cluster for the API: by their objects and pods first, by history if their objects are gone."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.port import Transition
from windlass.controller.controller import Controller
from windlass.core.model.job import Job
from windlass.core.model.status import TERMINAL, JobState
from windlass.server.job_filter import HistoryFilter, JobFilter, is_in_namespace, is_visible
from windlass.server.operator import job_names
from windlass.server.operator.history.databases import HistoryError
from windlass.server.operator.history.entries import RecordedStay, StoredLog
from windlass.server.operator.history.store import JobHistory
from windlass.server.operator.members import list_members
from windlass.server.operator.ongoing_commit import OngoingCommit
from windlass.server.operator.pod_tasks import PodTask, merge_tasks

T = TypeVar("T")


class ClusterJobRecords:
    """The interface `data_source.JobRecords` for a cluster.

    A job is shown as it was last committed. When the database of history does not answer, queries of a job return what
    its objects contain, and queries of history raise HistoryError.
    """

    def __init__(
        self,
        controller: Controller,
        backend: KubernetesBackend,
        history: JobHistory,
        commit: OngoingCommit,
    ) -> None:
        self._controller, self._backend, self._history = controller, backend, history
        self._commit = commit

    async def wait_for_commit(self) -> None:
        """Waits until no commit is under way."""
        await self._commit.wait()

    async def ids(self, name: str) -> list[str]:
        """The id itself, an array's jobs, or the only id with this end, existing or recorded. Raises ApiError.

        Of several existing jobs of a name the living one is meant; if none lives, the latest.
        """
        text = job_names.normalize_name(name)
        here = {state.id: state for state in self._backend.external.incomplete()}
        here |= {gang.id: gang.state for gang in self._backend.jobs} | self._controller.states
        if members := [state.id for state in here.values() if _is_of(state.id, state.job, text)]:
            return members
        if found := job_names.find_candidates(text, here):
            return [job_names.choose_only(text, found)]
        called = _prefer_living([state for state in here.values() if state.job.name == text])
        recorded = [] if called else await _ask_history(self._history.ids(text), [])
        if found := called or job_names.find_candidates(text, recorded) or (recorded if "/" not in text else []):
            return [job_names.choose_only(text, sorted(found))]
        raise job_names.unknown_job(text, [*here, *await _ask_history(self._history.names(), [])])

    async def job(self, job_id: str) -> JobState | None:
        """The job's state by its object, else by history."""
        return self._here(job_id) or await _ask_history(self._history.job(job_id), None)

    async def ended(self, job_filter: JobFilter, limit: int) -> Sequence[JobState]:
        """Ended jobs, the latest created first."""
        query = job_filter.query(TERMINAL)
        if query is None:
            return []
        here = [state for state in self._ended() if job_filter.has(state)]
        found = _each_once([*here, *await self._history.jobs(query, limit)])
        return sorted(found, key=lambda state: -state.status.created_at)[:limit]

    async def history(self, chosen: HistoryFilter) -> Sequence[JobState]:
        """Ended jobs, the last to end first."""
        here = [state for state in self._ended() if _matches(state, chosen)]
        recorded = await self._history.ended(chosen)
        return sorted(_each_once([*here, *recorded]), key=lambda state: -_end(state))[: chosen.limit]

    async def namespaces(self) -> set[str]:
        """Namespaces of the jobs that ended last, of those that history has."""
        return {each.partition("/")[0] for each in await _ask_history(self._history.names(), [])}

    # --- one job --------------------------------------------------------------------------------

    async def tasks(self, job_id: str) -> Sequence[PodTask]:
        """Existing and recorded pods."""
        state = await self._state(job_id)
        if state is None:
            return []
        seen = [task for task, _ in list_members(self._backend, state)]
        return merge_tasks(await _ask_history(self._history.tasks(job_id, state.status.created_at), []), seen)

    async def last_nodes(self, states: Sequence[JobState]) -> Mapping[str, list[str]]:
        """Nodes of the last generation of jobs, by id."""
        found: dict[str, list[str]] = {}
        for state in states:
            tasks = await self.tasks(state.id)
            last = max((task.generation for task in tasks), default=0)
            nodes = dict.fromkeys(task.node for task in tasks if task.generation == last and task.node)
            if nodes:
                found[state.id] = list(nodes)
        return found

    def ranks_seen(self, state: JobState, _tasks: Sequence[PodTask]) -> list[dict[str, Any]]:
        """Heartbeats and reports of the agents in the job's pods."""
        gang = self._backend.jobs.get(state.id)
        return self._backend.agents.ranks_seen(gang) if gang is not None else []

    async def transitions(self, job_id: str) -> Sequence[Transition]:
        """Transitions, oldest first."""
        state = await self._state(job_id)
        if state is None:
            return []
        return await _ask_history(self._history.transitions(job_id, state.status.created_at), [])

    async def node_stays(self, node: str, visible: Collection[str] | None, limit: int) -> Sequence[RecordedStay]:
        """Attempts on a node whose pods are recorded, the newest job first. `visible`: of these namespaces."""
        return await _ask_history(self._history.node_stays(node, visible, limit), [])

    async def stay_transitions(self, stay: RecordedStay) -> Sequence[Transition]:
        """Transitions of the job of a stay, oldest first."""
        return await _ask_history(self._history.transitions(stay.job_id, stay.created_at), [])

    async def logs(self, job_id: str) -> Sequence[StoredLog]:
        """Recorded logs of ended pods. Raises HistoryError."""
        state = await self._state(job_id)
        return [] if state is None else await self._history.logs(job_id, state.status.created_at)

    async def events(self, after: int, job_ids: Collection[str]) -> Sequence[tuple[int, Transition]]:
        """See `JobHistory.events`."""
        return await _ask_history(self._history.events(after, job_ids), [])

    # --- lookups ----------------------------------------------------------------------------------

    async def _state(self, job_id: str) -> JobState | None:
        return self._controller.states.get(job_id) or await self.job(job_id)

    def _here(self, job_id: str) -> JobState | None:
        gang = self._backend.jobs.get(job_id)
        if gang is None:
            return next((state for state in self._backend.external.incomplete() if state.id == job_id), None)
        return gang.state if gang.stored is not None or gang.fit.waiting_reason else None

    def _ended(self) -> list[JobState]:
        """Ended jobs whose objects still exist."""
        states = (gang.state for gang in self._backend.jobs if gang.stored is not None)
        return [state for state in states if state.status.phase in TERMINAL]


async def _ask_history(question: Awaitable[T], otherwise: T) -> T:
    """The answer of the history's database, or `otherwise` if it does not answer; its writer reports that."""
    try:
        return await question
    except HistoryError:
        return otherwise


def _is_of(job_id: str, job: Job, array: str) -> bool:
    """Whether a job belongs to an array, named with or without the namespace."""
    if job.array is None:
        return False
    return job.array.array_id in (array, f"{job_id.partition('/')[0]}/{array}")


def _prefer_living(named: Sequence[JobState]) -> list[str]:
    """Ids of the living ones among jobs of one name; if none lives, of the latest."""
    living = [state.id for state in named if state.status.phase not in TERMINAL]
    return living or [state.id for state in sorted(named, key=lambda state: state.status.created_at)[-1:]]


def _matches(state: JobState, chosen: HistoryFilter) -> bool:
    job = state.job
    return (
        chosen.name in ("", job.name)
        and chosen.user in ("", job.user)
        and _end(state) >= chosen.since
        and is_in_namespace(state.id, chosen.namespace)
        and is_visible(state.id, chosen.visible)
    )


def _each_once(states: Iterable[JobState]) -> list[JobState]:
    """The first state of each job."""
    found: dict[tuple[str, int], JobState] = {}
    for state in states:
        found.setdefault((state.id, state.status.created_at), state)
    return list(found.values())


def _end(state: JobState) -> int:
    return state.status.finished_at or 0
