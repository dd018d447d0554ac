"""The condition of a running job whose spec requests something that it does not have yet."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.core.model.gang import short_roles
from windlass.core.model.job import Job
from windlass.core.model.status import TERMINAL, Placement, Status
from windlass.jobs.kubernetes.kinds import registry

SPEC_APPLIED = "SpecApplied"
"""A condition that is false while a change of the spec waits, and else absent."""
_AT_NEXT_START = "AtNextStart"
_SIZED_BY_SCHEDULER = "SizedByScheduler"
_KUBEFLOW = (registry.V1, registry.V2)
"""API versions of kinds whose `replicas` are a size; those of an elastic TrainingJob are its maximum."""
_HELD = "the changed spec takes effect when the job starts again: until then it keeps what it was started with"


def spec_condition(gang: Gang, status: Status) -> Mapping[str, str] | None:
    """The condition of a job in this status; None if it has all that its spec requests, or holds no nodes."""
    if status.placement is None or status.phase in TERMINAL:
        return None
    if gang.requested_spec is not None:
        return _condition(_AT_NEXT_START, _HELD)
    if gang.parsed.api_version in _KUBEFLOW and (other := _describe_other_sizes(gang.job, status.placement)):
        return _condition(_SIZED_BY_SCHEDULER, f"{other}: the scheduler decides how many, and stops the gang for that")
    short = ", ".join(
        f"{size} of {role.replicas} replicas of {role.name}" for role, size in short_roles(gang.job, status.placement)
    )
    if not short or not gang.notes.missing_reason:
        return None
    return _condition(gang.notes.missing_reason, f"{short}: {gang.notes.missing_message}")


def _describe_other_sizes(job: Job, placement: Placement) -> str:
    """Names the roles that have another size until a new start: "4 replicas of worker, not 2"; "" if none does."""
    sizes = ((role, len(placement.nodes.get(role.name, ()))) for role in job.roles)
    other = [(role, has) for role, has in sizes if role.elastic and not role.scales_in_place and has != role.replicas]
    return ", ".join(f"{has} replicas of {role.name}, not {role.replicas}" for role, has in other)


def _condition(reason: str, message: str) -> Mapping[str, str]:
    return {"type": SPEC_APPLIED, "status": "False", "reason": reason, "message": message}
