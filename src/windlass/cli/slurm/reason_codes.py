"""Codes of squeue(1) for the reason why a job waits, or has ended.

Source: squeue(1) of Slurm 22.05, JOB REASON CODES, and the page on resource limits that it names for further codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from windlass.core.model.reasons import Gate, Limit, Reason

REASON = ("phase", "reason", "gate", "limit", "behind")
"""Fields of a row that `reason_code` needs."""
NONE = "None"
"""Code of a job that has no reason, or has not been considered yet."""
_OF_GATES = MappingProxyType(
    {
        Gate.HOLD: "JobHeldAdmin",
        Gate.BACKOFF: "BeginTime",
        Gate.DEPENDENCY: "Dependency",
        Gate.BEGIN_TIME: "BeginTime",
        Gate.EXCLUSIVE_RESOURCE: "Resources",
        Gate.ARRAY_LIMIT: "JobArrayTaskLimit",
    }
)
"""As Slurm, whose requeued jobs wait for a begin time."""
_OF_LIMITS = MappingProxyType(
    {
        Limit.QUEUE: "QOSResourceLimit",
        Limit.QUEUE_JOBS: "QOSJobLimit",
        Limit.USER: "AssociationResourceLimit",
        Limit.USER_JOBS: "AssociationJobLimit",
    }
)
"""A queue limits its jobs as the QOS of a partition does, and a user of it as an association does."""
_OF_REASONS = MappingProxyType(
    {
        Reason.MISCONFIGURED: "PartitionDown",
        Reason.SUSPENDED: "JobHeldUser",
        Reason.NO_MATCHING_FLAVOR: "BadConstraints",
        Reason.EXCEEDS_MAX_QUOTA: "PartitionNodeLimit",
        Reason.WAITING_FOR_QUOTA: "Resources",
        Reason.TOPOLOGY_PLACEMENT_FAILED: "Resources",
        Reason.WAITING_FOR_PREEMPTED: "Resources",
        Reason.PENDING_EVALUATION: NONE,
    }
)
"""A job is misconfigured in the queue if that does not exist, or is itself misconfigured."""
_OF_ENDS = MappingProxyType(
    {
        "DependencyFailed": "DependencyNeverSatisfied",
        "WalltimeExceeded": "TimeLimit",
        "DeadlineExceeded": "DeadLine",
        "NodeLost": "NodeDown",
        "OutOfMemory": "OutOfMemory",
        "NodeOutOfMemory": "OutOfMemory",
        "NotLaunched": "JobLaunchFailure",
        "StartTimeout": "JobLaunchFailure",
        "Rejected": "JobLaunchFailure",
        "Invalid": "JobLaunchFailure",
        "Lost": "SystemFailure",
        "Evicted": "SystemFailure",
    }
)
"""Reason of a failed job → code. All others are ends by an exit code or a signal of the program."""


def reason_code(row: Mapping[str, Any]) -> str:
    """The code for a row of a listing."""
    match row["phase"]:
        case "Suspended":
            return _OF_REASONS[Reason.SUSPENDED]
        case "Queued":
            return _waiting_code(row)
        case "Failed" if row["reason"] != "Cancelled":
            return _OF_ENDS.get(row["reason"], "NonZeroExitCode")
    return NONE


def _waiting_code(row: Mapping[str, Any]) -> str:
    if row.get("gate"):
        return _OF_GATES[Gate(row["gate"])]
    if row.get("behind"):
        return "Priority"
    is_quota = row["reason"] == Reason.WAITING_FOR_QUOTA
    if is_quota and row.get("limit"):
        return _OF_LIMITS[Limit(row["limit"])]
    return _OF_REASONS.get(row["reason"], NONE)
