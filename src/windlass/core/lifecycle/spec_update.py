"""Changes of a job's specification by its owner."""

from __future__ import annotations

from dataclasses import replace

from windlass.core.model.job import Job, Role
from windlass.core.model.status import TERMINAL, JobState, Placement


def can_change(state: JobState, job: Job) -> bool:
    """Whether the job may become `job`: not once it has ended, and only in the same size while it holds nodes."""
    if state.status.phase in TERMINAL:
        return False
    return state.status.placement is None or _sizes(state.job) == _sizes(job)


def job_as_placed(job: Job, placement: Placement | None) -> Job:
    """The job with the roles and replicas with which it was started, whatever its specification is by now."""
    if placement is None:
        return job
    return replace(job, roles=tuple(_as_placed(role, placement) for role in job.roles if role.name in placement.nodes))


def _as_placed(role: Role, placement: Placement) -> Role:
    nodes = placement.nodes.get(role.name)
    return role if nodes is None or role.elastic else replace(role, replicas=len(nodes))


def _sizes(job: Job) -> list[tuple[str, int | None]]:
    """Replicas by role; None for an elastic role."""
    return [(role.name, None if role.elastic else role.replicas) for role in job.roles]
