"""The outcome of a simulation: every run of every job as arrays, compact to keep and fast to draw."""

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


class EndCause(IntEnum):
    """The cause of a run's end."""

    FINISHED = 0
    PREEMPTED = 1
    KILLED = 2
    """Its walltime expired."""
    LOST = 3
    """A node or a process of the run failed."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """J jobs in the trace's order, S runs in order of their end, K seats (a run's part of one node).

    Times in ms, on the trace's clock. A job has one run for each period on nodes.
    """

    trace: Trace
    cluster: Cluster
    policy: Policy
    nodes: tuple[str, ...]
    """Node names by row."""
    job: NDArray[np.int32]
    """int32[S]: the run's job, an index into `trace.jobs`."""
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
    """int32[K]: the amount of `unit` held there, in thousandths."""
    by_node: NDArray[np.int64]
    """int64[N]: each node's capacity of `unit`, in thousandths."""
    unit: str
    """The measured resource: "gpu", or "cpu" if no job of the trace requests a GPU."""
    left_out: Mapping[str, int]
    """Jobs that were not replayed, by cause."""

    @cached_property
    def submit(self) -> Times:
        """int64[J]: submission time of each job."""
        return np.array([job.submit for job in self.trace.jobs], dtype=np.int64)

    @cached_property
    def first_begin(self) -> Times:
        """int64[J]: first start of each job; NEVER for jobs that were left out."""
        first = np.full(len(self.trace.jobs), np.iinfo(np.int64).max)
        np.minimum.at(first, self.job, self.begin)
        return np.where(first == np.iinfo(np.int64).max, NEVER, first)

    @cached_property
    def last_end(self) -> Times:
        """int64[J]: end of each job, finished or killed; NEVER for jobs that were left out."""
        last = np.full(len(self.trace.jobs), NEVER, dtype=np.int64)
        np.maximum.at(last, self.job, self.end)
        return last

    @cached_property
    def ended(self) -> NDArray[np.bool_]:
        """bool[J]: whether a job finished or was killed; False for jobs left out, or whose nodes never recovered."""
        found = np.zeros(len(self.trace.jobs), dtype=np.bool_)
        found[self.job[(self.cause == EndCause.FINISHED) | (self.cause == EndCause.KILLED)]] = True
        return found

    @cached_property
    def runs(self) -> NDArray[np.int64]:
        """int64[J]: number of starts of each job."""
        return np.bincount(self.job, minlength=len(self.trace.jobs))

    @cached_property
    def held(self) -> Times:
        """int64[J]: time on nodes of each job, over all runs."""
        total = np.zeros(len(self.trace.jobs), dtype=np.int64)
        np.add.at(total, self.job, self.end - self.begin)
        return total

    @property
    def capacity(self) -> int:
        """Total capacity of `unit`, in thousandths."""
        return int(self.by_node.sum())

    @cached_property
    def held_units(self) -> NDArray[np.int64]:
        """int64[S]: the amount of `unit` that each run held, in thousandths."""
        total = np.concatenate(([0], np.cumsum(self.amount, dtype=np.int64)))
        found: NDArray[np.int64] = total[self.seats[1:]] - total[self.seats[:-1]]
        return found
