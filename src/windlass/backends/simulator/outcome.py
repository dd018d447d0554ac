"""What became of every job of a trace, as arrays: small enough to keep and quick to draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from windlass.backends.simulator.traces.job import Trace
from windlass.core.model.policy import Policy
from windlass.jobs.cluster.cluster_file import Cluster

Times = NDArray[np.int64]
NEVER = -1


class Cause(IntEnum):
    """Why a run ended."""

    FINISHED = 0
    PREEMPTED = 1
    KILLED = 2
    """Its walltime was over."""
    LOST = 3
    """A node or a process under it failed."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """J jobs in the trace's order, S runs in the order in which they ended, K seats on nodes.

    Times in ms, on the trace's clock. A job has a run for each time that it held nodes.
    """

    trace: Trace
    cluster: Cluster
    policy: Policy
    nodes: tuple[str, ...]
    """Names by row."""
    job: NDArray[np.int32]
    """int32[S]: whose run it was, an index into `trace.jobs`."""
    begin: Times
    """int64[S]"""
    end: Times
    """int64[S]"""
    cause: NDArray[np.int8]
    """int8[S], a Cause."""
    seats: Times
    """int64[S + 1]: run s has the seats from seats[s] up to seats[s + 1]."""
    row: NDArray[np.int32]
    """int32[K]: the node of each seat."""
    amount: NDArray[np.int32]
    """int32[K]: how much of `unit` was held there, in thousandths."""
    by_node: NDArray[np.int64]
    """int64[N]: how much of `unit` each node has, in thousandths."""
    unit: str
    """The resource that is counted: "gpu", or "cpu" if no job of the trace asks for a GPU."""
    left_out: Mapping[str, int]
    """Jobs that were not replayed, by cause."""

    @cached_property
    def submit(self) -> Times:
        """When each job was handed in: int64[J]."""
        return np.array([job.submit for job in self.trace.jobs], dtype=np.int64)

    @cached_property
    def first_begin(self) -> Times:
        """int64[J]; NEVER for jobs that were left out."""
        first = np.full(len(self.trace.jobs), np.iinfo(np.int64).max)
        np.minimum.at(first, self.job, self.begin)
        return np.where(first == np.iinfo(np.int64).max, NEVER, first)

    @cached_property
    def last_end(self) -> Times:
        """int64[J]: when it was over, whether finished or killed; NEVER for jobs that were left out."""
        last = np.full(len(self.trace.jobs), NEVER, dtype=np.int64)
        np.maximum.at(last, self.job, self.end)
        return last

    @cached_property
    def ended(self) -> NDArray[np.bool_]:
        """bool[J]: finished or killed; False for jobs that were left out, or whose nodes never came back."""
        found = np.zeros(len(self.trace.jobs), dtype=np.bool_)
        found[self.job[(self.cause == Cause.FINISHED) | (self.cause == Cause.KILLED)]] = True
        return found

    @cached_property
    def runs(self) -> NDArray[np.int64]:
        """int64[J]: how often it was started."""
        return np.bincount(self.job, minlength=len(self.trace.jobs))

    @cached_property
    def held(self) -> Times:
        """int64[J]: how long it held nodes, over all its runs."""
        total = np.zeros(len(self.trace.jobs), dtype=np.int64)
        np.add.at(total, self.job, self.end - self.begin)
        return total

    @property
    def capacity(self) -> int:
        """What all nodes have together of `unit`, in thousandths."""
        return int(self.by_node.sum())

    @cached_property
    def held_units(self) -> NDArray[np.int64]:
        """int64[S]: how much of `unit` each run held, in thousandths."""
        total = np.concatenate(([0], np.cumsum(self.amount, dtype=np.int64)))
        found: NDArray[np.int64] = total[self.seats[1:]] - total[self.seats[:-1]]
        return found
