"""The reason why a gang waits: one typed value from an ordered vocabulary, with exact counts.

Vocabulary: KEP-10852 (Kueue's unified pending reasons). A gang has the first reason, in this order, that holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Reasons in the order in which they are checked."""

    MISCONFIGURED = "Misconfigured"
    """It can never run as written: rejected before it is queued."""
    SUSPENDED = "Suspended"
    ON_HOLD = "OnHold"
    """Backoff after a failure, or its state cannot be written."""
    ADMISSION_GATED = "AdmissionGated"
    """Waits for another job (`--after`), for its begin time (`--begin`) or for its array's limit."""
    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    """Too few nodes pass its selectors, taints and sizes, even if they were empty."""
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    """Requests more than its queue may ever hold."""
    WAITING_FOR_QUOTA = "WaitingForQuota"
    """Its queue's quota or the cluster's free capacity does not suffice now."""
    TOPOLOGY_PLACEMENT_FAILED = "TopologyPlacementFailed"
    """Enough is free in total, but not in pieces of the right size."""
    WAITING_FOR_PREEMPTED = "WaitingForPreemptedWorkloads"
    """Starts as soon as gangs that are being stopped have released their nodes."""
    PENDING_EVALUATION = "PendingEvaluation"
    """Not evaluated yet."""


PERMANENT_REASONS = frozenset({Reason.MISCONFIGURED, Reason.NO_MATCHING_FLAVOR, Reason.EXCEEDS_MAX_QUOTA})
"""Reasons that last until the job, its queue or the nodes change."""


class Gate(StrEnum):
    """Gates in the order in which they are checked. A closed one keeps a gang out of the scheduling cycle."""

    HOLD = "Hold"
    """The backend or the controller cannot start it at present."""
    BACKOFF = "Backoff"
    """The backoff after a failure."""
    DEPENDENCY = "Dependency"
    """Other jobs have not reached what it waits for."""
    BEGIN_TIME = "BeginTime"
    EXCLUSIVE_RESOURCE = "ExclusiveResource"
    """Too many exclusive resources are requested by several gangs."""
    ARRAY_LIMIT = "ArrayLimit"


class Limit(StrEnum):
    """Limits of a queue that keep a gang waiting while nodes are free."""

    QUEUE = "Queue"
    """Its quota, with what it may borrow."""
    QUEUE_JOBS = "QueueJobs"
    """Its number of running jobs."""
    USER = "User"
    """The amount that one user may hold in it."""
    USER_JOBS = "UserJobs"
    """The number of jobs that one user may run in it."""


class StartCertainty(StrEnum):
    """Certainty of an expected start."""

    BOUND = "bound"
    """Latest start, by the walltimes of running gangs: it has a reservation, and no gang ahead can delay it. Only a new
    gang that sorts ahead of it can.
    """
    EXPECTED = "expected"
    """Start if every gang uses its whole walltime and no new one arrives; computed from totals, so it may differ per
    node.
    """
    EARLIEST = "earliest"
    """Its begin time, before which it does not start; what is free then is unknown, or enough by totals."""
    UNKNOWN = "unknown"
    """Unknown: it depends on gangs without a walltime, or on something other than time."""


@dataclass(frozen=True, slots=True)
class CauseCount:
    """Number of nodes excluded by one cause; each node counts for the first cause that excludes it."""

    cause: str
    """ "label zone=a", "taint gpu:NoSchedule", "cordoned", "too small", "full", … """
    nodes: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for one waiting gang.

    `free` and `usable` count the limiting resource (`resource`, in its own unit): the amount free on all eligible
    nodes, and the part of it in pieces that hold a replica. `fits` of the `wanted` replicas could be placed now.
    """

    reason: Reason
    message: str
    resource: str = ""
    wanted: int = 0
    fits: int = 0
    free: int = 0
    usable: int = 0
    counts: tuple[CauseCount, ...] = ()
    behind: str = ""
    """The gang ahead, if this one would fit without it."""
    eta: int | None = None
    """Expected start in ms; None: unknown."""
    certainty: StartCertainty = StartCertainty.UNKNOWN
    """Certainty of `eta`."""
    gate: Gate | None = None
    """The closed gate; None: the gang was considered."""
    limit: Limit | None = None
    """The limit of its queue that it would exceed; None: none."""


def format_count(number: int, noun: str) -> str:
    """Returns number and noun, in the plural unless the number is one: "1 rack", "40 racks"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
