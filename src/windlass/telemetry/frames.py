"""Frames: all values of one scope (a job, a queue, a node, the cluster) at one time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float32]
"""Values of one series at one time: one for each rank or GPU, or a single one. A missing value is NaN."""


class Tier(IntEnum):
    """Resolution of stored frames; the number is stored."""

    RAW = 0
    MINUTE = 1
    HOUR = 2


SPAN_MS = {Tier.MINUTE: 60_000, Tier.HOUR: 3_600_000}
"""Duration that one frame of a tier summarizes."""
RETENTION_MS = {Tier.RAW: 3_600_000, Tier.MINUTE: 24 * 3_600_000, Tier.HOUR: 90 * 24 * 3_600_000}
"""Age at which the frames of a tier are deleted."""


@dataclass(frozen=True, slots=True)
class MetricFrame:
    """Values of a scope at `time` (ms since the epoch), by series.

    A series is a metric's name, followed by its labels where it has any: `windlass_queue_used{resource="cpu"}`. The
    series of a job or a queue lacks the label that the scope already names.
    """

    scope: str
    time: int
    values: Mapping[str, Vector]


def scalar(value: float) -> Vector:
    """The vector of a series with a single value."""
    return np.array([value], dtype=np.float32)


def job_scope(job_id: str) -> str:
    """The scope of a job."""
    return f"job/{job_id}"


def queue_scope(queue: str) -> str:
    """The scope of a queue."""
    return f"queue/{queue}"


def node_scope(node: str) -> str:
    """The scope of a node."""
    return f"node/{node}"


CLUSTER = "cluster"
"""The scope of the whole cluster and of its scheduler."""
