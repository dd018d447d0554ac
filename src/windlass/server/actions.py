"""What one can have a world do, and what of it can be done to a job now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from windlass.core.lifecycle.events import Cancel, Event, Resume, Suspend
from windlass.core.model.status import CANCELLED, TERMINAL, JobState, Phase, Status, Target, called
from windlass.server.submission_request import SubmissionRequest
from windlass.server.views import Json

JOB_ACTIONS: Mapping[str, Callable[[str], Event]] = MappingProxyType(
    {"cancel": Cancel, "suspend": Suspend, "resume": Resume}
)
"""What one can do to a job."""


class Actions(Protocol):
    """The half of the API that changes something. Methods raise ApiError, WorldError."""

    async def submit(self, handed: SubmissionRequest) -> list[str]:
        """Take jobs in, all or none. Returns an id for each, an array's own for an array."""

    async def act(self, verb: str, name: str, body: Mapping[str, Any]) -> Json:
        """Cancel, suspend or resume."""

    async def act_on_all(self, verb: str, body: Mapping[str, Any]) -> Json:
        """The same for several `jobs` at once."""

    async def reserve(self, body: object) -> Json:
        """Keep nodes for somebody, or for nobody, for a time."""

    async def unreserve(self, name: str) -> Json:
        """Give the nodes of a reservation back."""

    async def down(self, body: Mapping[str, Any]) -> Json:
        """Leave."""


def describe_end(status: Status) -> str:
    """What to say to whoever would change a job that has ended: how it ended."""
    was_cancelled = called(status) == CANCELLED
    return f"has ended already: {status.message}" if was_cancelled else f"has ended already ({status.phase.value})"


def find_obstacle(verb: str, state: JobState) -> str:
    """Why this cannot be done to a job now, "" if it can."""
    status = state.status
    if status.phase in TERMINAL:
        return describe_end(status)
    if verb == "resume" and status.phase is not Phase.SUSPENDED and status.target is not Target.SUSPEND:
        return f"is not suspended but {status.phase.value}"
    if verb == "suspend" and status.phase is Phase.SUSPENDED:
        return "is suspended already"
    return ""
