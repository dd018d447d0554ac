"""Decides whether a job has succeeded, from the members that have (`core.model.job.SuccessPolicy`)."""

from __future__ import annotations

from windlass.core.model.job import Job, SuccessRule


def has_succeeded(job: Job, succeeded: int) -> bool:
    """Whether the members that succeeded, a bit set, make the job succeed. `job`: in the size in which it runs."""
    policy = job.success
    named = [bits for role, bits in _bits_by_role(job) if role in policy.roles]
    deciding = named or [bits for _, bits in _bits_by_role(job)]
    everything = sum(deciding)
    if succeeded & everything == everything:
        return True
    match policy.rule:
        case SuccessRule.ANY:
            return bool(succeeded & everything)
        case SuccessRule.FIRST:
            return bool(succeeded & deciding[0] & -deciding[0])
    return False


def _bits_by_role(job: Job) -> list[tuple[str, int]]:
    """Each role with the bits of its members, which are numbered over all roles."""
    found, first = [], 0
    for role in job.roles:
        found.append((role.name, ((1 << role.replicas) - 1) << first))
        first += role.replicas
    return found
