"""Jobs by name or id, and their place in the queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from windlass.controller.controller import Controller
from windlass.core.model.status import HOLDING, JobState, Phase
from windlass.server.data_source import DataSource
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.job_lines import NOT_PENDING, Json, PendingStatus, job_line


class JobLookup:
    """Lookup of jobs in a controller and in its backend. Methods raise ApiError, BackendError."""

    def __init__(self, controller: Controller, source: DataSource) -> None:
        self._controller, self._source, self._records = controller, source, source.records
        self._listed_fields: tuple[str, ...] = ()
        self._listed: dict[tuple[str, int], tuple[JobState, PendingStatus, Json]] = {}
        """Lines of the last listing with `_listed_fields`, by id and creation, and what each was made of.

        History has several jobs with one id: those of an object that was deleted and created again.
        """

    async def ids(self, name: str) -> list[str]:
        """Ids of the jobs that a name or id means: one, or an array's members."""
        return await self._records.ids(name)

    async def state(self, job_id: str) -> JobState:
        """The current, committed state of a job."""
        await self._records.wait_for_commit()
        state = self._controller.states.get(job_id) or await self._records.job(job_id)
        if state is None:
            raise ApiError(ErrorCode.NO_SUCH_JOB, f"{job_id} is no longer recorded")
        return state

    async def states(self, name: str) -> list[JobState]:
        """The states of the jobs that a name or id means."""
        return [await self.state(job_id) for job_id in await self.ids(name)]

    def positions(self) -> dict[str, int]:
        """Position in the queue of each pending job, from 1."""
        return {job_id: place for place, job_id in enumerate(self._controller.plan.order, start=1)}

    def line(self, state: JobState, positions: Mapping[str, int]) -> Json:
        """The job as one line of a listing."""
        return job_line(state, self.pending_status(state, positions))

    def lines(self, states: Iterable[JobState], positions: Mapping[str, int], fields: tuple[str, ...]) -> list[Json]:
        """Jobs as lines of a listing, with these fields. A line of the last listing is kept until its job changes."""
        known = self._listed if fields == self._listed_fields else {}
        listed = {}
        for state in states:
            status = self.pending_status(state, positions)
            key = state.id, state.status.created_at
            entry = known.get(key)
            if entry is None or entry[0] is not state or entry[1] != status:
                entry = state, status, job_line(state, status, fields)
            listed[key] = entry
        self._listed, self._listed_fields = listed, fields
        return [line for _, _, line in listed.values()]

    def pending_status(self, state: JobState, positions: Mapping[str, int]) -> PendingStatus:
        """Verdict and position of a job if it is pending, and the diagnosis of what keeps it from running."""
        obstacle = self._source.wait_verdict(state.id)
        if not is_pending(state):
            return NOT_PENDING if obstacle is None else PendingStatus(obstacle=obstacle)
        return PendingStatus(self._controller.plan.verdicts.get(state.id), positions.get(state.id, 0), obstacle)


def is_pending(state: JobState) -> bool:
    """Whether the job waits in the queue."""
    return state.status.phase is Phase.QUEUED


def listing_order(state: JobState, positions: Mapping[str, int]) -> tuple[int, int, int]:
    """Sorts holders of nodes before pending jobs in queue order before all others."""
    status = state.status
    if status.phase in HOLDING:
        return 0, status.admitted_at or 0, state.number
    if is_pending(state):
        return 1, positions.get(state.id, len(positions) + 1), state.number
    return 2, 0, state.number
