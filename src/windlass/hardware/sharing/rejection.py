"""Typed reasons for which a workload does not get a use of GPUs, each with its numbers and the fix."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """Cause of a rejection, for programs that count them."""

    MEMORY = "memory"
    ISOLATION = "isolation"
    LATENCY = "latency"
    SLOWDOWN = "slowdown"
    OVERLOAD = "overload"
    MULTI_GPU = "multi-gpu"
    NO_MIG = "no-mig"
    CAPACITY = "capacity"
    COST = "cost"
    """The use is right and takes more of the cluster than the chosen one."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A use that a workload does not get in a pool. `use` is empty where the pool as a whole is meant."""

    workload: str
    pool: str
    use: str
    cause: Cause
    text: str
