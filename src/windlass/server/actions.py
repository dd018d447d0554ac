"""Actions of the API, and the states of a job in which they are possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from windlass.core.lifecycle.events import Cancel, Event, Resume, Suspend
from windlass.core.model.status import CANCELLED, TERMINAL, JobState, Phase, Status, Target, state_name
from windlass.server.job_lines import Json
from windlass.server.submission_request import SubmissionRequest

if TYPE_CHECKING:
    from windlass.server.job_update import JobUpdate

JOB_ACTIONS: Mapping[str, Callable[[str], Event]] = MappingProxyType(
    {"cancel": Cancel, "suspend": Suspend, "resume": Resume}
)
"""Event of each action on a job, made with the user's name."""


class Actions(Protocol):
    """The write side of the API. Methods raise ApiError, BackendError."""

    async def submit(self, request: SubmissionRequest) -> list[str]:
        """Accepts jobs, all or none. Returns an id for each submission, one for an array."""

    async def act(self, verb: str, name: str, body: Mapping[str, Any]) -> Json:
        """Cancels, suspends or resumes a job."""

    async def update(self, name: str, update: JobUpdate) -> Json:
        """Changes priority or time limit of a job; one that holds nodes can only be given lower ones."""

    async def act_on_all(self, verb: str, body: Mapping[str, Any]) -> Json:
        """Cancels, suspends or resumes several `jobs`."""

    async def schedules(self) -> list[Json]:
        """All schedules, by name."""

    async def run_schedule(self, name: str) -> list[str]:
        """Starts a run of a schedule at once. Returns its id."""

    async def reserve(self, body: object) -> Json:
        """Reserves nodes for queues or users, or for maintenance."""

    async def unreserve(self, name: str) -> Json:
        """Deletes a reservation."""

    async def open_dashboard(self, body: Mapping[str, Any]) -> Json:
        """The `url` of a new one-time link to the dashboard, on `port`; with `may_act` its pages may change jobs."""

    async def down(self, body: Mapping[str, Any]) -> Json:
        """Ends the daemon."""


def describe_end(status: Status) -> str:
    """Refusal of an action on an ended job: how the job ended."""
    was_cancelled = state_name(status) == CANCELLED
    return f"has ended already: {status.message}" if was_cancelled else f"has ended already ({status.phase.value})"


def find_obstacle(verb: str, state: JobState) -> str:
    """Reason why an action is not possible in the job's state; empty if it is."""
    status = state.status
    if status.phase in TERMINAL:
        return describe_end(status)
    if verb == "resume" and status.phase is not Phase.SUSPENDED and status.target is not Target.SUSPEND:
        return f"is not suspended but {status.phase.value}"
    if verb == "suspend" and status.phase is Phase.SUSPENDED:
        return "is suspended already"
    return ""
