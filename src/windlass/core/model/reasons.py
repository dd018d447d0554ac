"""Why a gang waits: one typed reason from an ordered vocabulary, with exact counts.

Vocabulary: KEP-10852 (Kueue's unified pending reasons). A gang has the first reason, in this order, that holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """In the order in which they are tried."""

    MISCONFIGURED = "Misconfigured"
    """It can never run as written: refused before it queues."""
    SUSPENDED = "Suspended"
    ON_HOLD = "OnHold"
    """Backoff after a failure."""
    ADMISSION_GATED = "AdmissionGated"
    """Waits for another job (`--after`) or for its array's limit."""
    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    """Too few nodes pass its selectors, taints and sizes, however empty they were."""
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    """Asks for more than its queue may ever hold."""
    WAITING_FOR_QUOTA = "WaitingForQuota"
    """Its queue's quota or the cluster's free capacity does not suffice now."""
    TOPOLOGY_PLACEMENT_FAILED = "TopologyPlacementFailed"
    """Enough is free in all, but not in pieces of the right size."""
    WAITING_FOR_PREEMPTED = "WaitingForPreemptedWorkloads"
    """Starts as soon as gangs that are being stopped have given their nodes back."""
    PENDING_EVALUATION = "PendingEvaluation"
    """Not looked at yet."""


PERMANENT_REASONS = frozenset({Reason.MISCONFIGURED, Reason.NO_MATCHING_FLAVOR, Reason.EXCEEDS_MAX_QUOTA})
"""Whoever waits for one of these waits in vain until somebody changes the job, its queue or the nodes."""


class StartCertainty(StrEnum):
    """What an expected start is worth."""

    BOUND = "bound"
    """At the latest, by the walltimes of what runs: nodes are promised to it, and nothing ahead of it can delay it.
    Only what comes in ahead of it can."""
    EXPECTED = "expected"
    """If everything uses its walltime in full and nothing new comes in; by counting, node by node it may differ."""
    UNKNOWN = "unknown"
    """It depends on gangs without a walltime, or on something that is not a matter of time."""


@dataclass(frozen=True, slots=True)
class Count:
    """`nodes` nodes lost to one cause, each node counted at the first cause that excludes it."""

    cause: str
    """ "label zone=a", "taint gpu:NoSchedule", "cordoned", "too small", "full", … """
    nodes: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for one waiting gang.

    `free` and `usable` count the resource that binds (`resource`, in its own unit): free on all eligible
    nodes, and free in pieces that a replica fits into. `fits` replicas of `wanted` would find a place now.
    """

    reason: Reason
    message: str
    resource: str = ""
    wanted: int = 0
    fits: int = 0
    free: int = 0
    usable: int = 0
    counts: tuple[Count, ...] = ()
    behind: str = ""
    """The gang that goes first, if this one would fit but for it."""
    eta: int | None = None
    """When it starts, in ms; None: it cannot be told."""
    certainty: StartCertainty = StartCertainty.UNKNOWN
    """How sure that is."""


def format_count(number: int, noun: str) -> str:
    """Number and noun, in the plural unless it is one: "1 rack", "40 racks"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
