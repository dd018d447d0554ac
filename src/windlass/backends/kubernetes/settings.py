"""What an installation sets for the world."""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.backends.kubernetes.pods.pod_deletion import EVICTION_PATIENCE_S
from windlass.backends.members import SETTLING_MS
from windlass.jobs.kubernetes.settings import Settings


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """Times in milliseconds."""

    kinds: Settings = field(default_factory=Settings)
    image_patience: int = 300_000
    """For so long an image may fail to be pulled before its pod counts as one that cannot start."""
    eviction_patience: float = EVICTION_PATIENCE_S
    """Seconds for which a disruption budget may forbid an eviction before a preemption is given up."""
    settling: int = SETTLING_MS
    """The first failure of a run waits for so long for earlier failures (`MemberTracker`)."""
    at_once: int = 64
    """Requests in flight that make, bind or delete pods. Measured: more than 32 to 64 bind no faster."""
    settle: int = 20
    """For so long changes of nodes are gathered before the controller hears of them."""
