"""The condition of a running job whose spec requests something that it does not have yet."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.core.model.job import Job
from windlass.core.model.status import TERMINAL, Placement, Status

SPEC_APPLIED = "SpecApplied"
"""A condition that is false while a change of the spec waits, and else absent."""
_AT_NEXT_START = "AtNextStart"
_HELD = "the changed spec takes effect when the job starts again: until then it keeps what it was started with"


def spec_condition(gang: Gang, status: Status) -> Mapping[str, str] | None:
    """The condition of a job in this status; None if it has all that its spec requests, or holds no nodes."""
    if status.placement is None or status.phase in TERMINAL:
        return None
    if gang.requested_spec is not None:
        return _condition(_AT_NEXT_START, _HELD)
    short = describe_missing(gang.job, status.placement)
    if not short or not gang.notes.missing_reason:
        return None
    return _condition(gang.notes.missing_reason, f"{short}: {gang.notes.missing_message}")


def describe_missing(job: Job, placement: Placement) -> str:
    """Names the roles that lack replicas: "2 of 4 replicas of worker"; "" if none does."""
    sizes = ((role, len(placement.nodes.get(role.name, ()))) for role in job.roles if role.scales_in_place)
    return ", ".join(f"{has} of {role.replicas} replicas of {role.name}" for role, has in sizes if has < role.replicas)


def _condition(reason: str, message: str) -> Mapping[str, str]:
    return {"type": SPEC_APPLIED, "status": "False", "reason": reason, "message": message}
