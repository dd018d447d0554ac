"""Outcome of a diagnosis as data: the root cause of a failed job, its evidence, and the advice to a scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Advice(StrEnum):
    """Recommended action of a scheduler on the job."""

    RETRY = "retry"
    """Another start may succeed, on any node."""
    AVOID_NODE = "avoid-node"
    """Another start may succeed, on other nodes than the verdict's."""
    STOP = "stop"
    """Another start fails in the same way."""


class Certainty(StrEnum):
    """Strength of the evidence for a cause."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


class CauseScope(StrEnum):
    """Extent of a cause."""

    RANK = "rank"
    NODE = "node"
    FABRIC = "fabric"
    JOB = "job"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """One line that proves a fact. Secrets in it are masked."""

    source: str
    """Path of the file, or the name of the log, of the events or of the object."""
    line: int
    """From 1; 0 for a fact that has no line."""
    text: str


@dataclass(frozen=True, slots=True)
class OtherCause:
    """Another cause that the evidence allows."""

    rule: str
    cause: str
    text: str
    decide: str
    """Observation that would decide between it and the root cause."""


@dataclass(frozen=True, slots=True)
class RootCause:
    """Cause that explains the failure best: the verdict of the reports."""

    rule: str
    cause: str
    """Slug of the cause, which several rules may share."""
    text: str
    """One sentence with the values of this case."""
    certainty: Certainty
    scope: CauseScope
    advice: Advice
    why: str
    fix: str
    command: str = ""
    decide: str = ""
    """Observation that would confirm or refute the verdict."""
    rank: int | None = None
    node: str | None = None
    time: int | None = None
    """Milliseconds since the epoch; absent where the evidence has no time."""
    evidence: Sequence[EvidenceLine] = ()
    alternatives: Sequence[OtherCause] = ()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A verdict, or none where no line points to a failure, and the gaps of the evidence."""

    verdict: RootCause | None
    unseen: Sequence[str] = ()
    """Gaps of the evidence: ranks without a log, truncated files, lines that are too long."""
    notes: Sequence[str] = ()
    """Sentences on logs without a verdict, and on what would allow one."""
