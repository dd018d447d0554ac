"""The figures of the table: name, meaning, and place in the metrics of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from windlass.backends.simulator.metrics import UNFAIR, Metrics

Unit: TypeAlias = Literal["s", "share", "ratio", "count"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of the page's table, and a column of the terminal's."""

    key: str
    title: str
    head: str
    """Short title, for table heads."""
    about: str
    unit: Unit
    value: Callable[[Metrics], float]
    better: Literal["lower", "higher", ""] = "lower"
    """Which of two values is better; "": neither."""
    wide: bool = False
    """Shown by -o wide only."""
    zero_is_undefined: bool = False
    """A report leaves it out where it is 0 in all runs."""


def _seconds(ms: float) -> float:
    return ms / 1000


FIGURES: tuple[Figure, ...] = (
    Figure(
        "wait_avg",
        "Average wait",
        "WAIT",
        "From submission to the end, less the time that nodes were held.",
        "s",
        lambda m: _seconds(m.everything.wait.avg),
    ),
    Figure("wait_p50", "Median wait", "WAIT P50", "", "s", lambda m: _seconds(m.everything.wait.p50), wide=True),
    Figure(
        "wait_p99",
        "99th percentile of the wait",
        "WAIT P99",
        "One job in a hundred waited longer.",
        "s",
        lambda m: _seconds(m.everything.wait.p99),
    ),
    Figure("wait_max", "Longest wait", "WAIT MAX", "", "s", lambda m: _seconds(m.everything.wait.max), wide=True),
    Figure(
        "jct_avg",
        "Average completion time",
        "JCT",
        "JCT: from submission to the end.",
        "s",
        lambda m: _seconds(m.everything.jct.avg),
    ),
    Figure(
        "jct_p50", "Median completion time", "JCT P50", "", "s", lambda m: _seconds(m.everything.jct.p50), wide=True
    ),
    Figure(
        "jct_p99",
        "99th percentile of the completion time",
        "JCT P99",
        "",
        "s",
        lambda m: _seconds(m.everything.jct.p99),
        wide=True,
    ),
    Figure(
        "slowdown_avg",
        "Average bounded slowdown",
        "SLOWDOWN",
        "Completion time over run time, runs under 10 s counted as 10 s.",
        "ratio",
        lambda m: m.everything.slowdown.avg,
    ),
    Figure(
        "slowdown_p99",
        "99th percentile of the bounded slowdown",
        "SLOWDOWN P99",
        "",
        "ratio",
        lambda m: m.everything.slowdown.p99,
        wide=True,
    ),
    Figure(
        "makespan",
        "Makespan",
        "MAKESPAN",
        "From the first submission to the last end.",
        "s",
        lambda m: _seconds(m.makespan),
        wide=True,
    ),
    Figure(
        "unallocated",
        "Unallocated",
        "IDLE",
        "Share of the capacity that no job held, over the makespan.",
        "share",
        lambda m: m.unallocated,
    ),
    Figure(
        "fragmentation",
        "Fragmentation",
        "FRAG",
        "Share of the free capacity in pieces too small for the trace's jobs (after FGD).",
        "share",
        lambda m: m.fragmentation,
    ),
    Figure(
        "unfair",
        "Jobs treated unfairly",
        "UNFAIR",
        f"Share of jobs with a finish-time fairness above {UNFAIR}: worse off than with an equal part of the cluster.",
        "share",
        lambda m: m.unfair,
        wide=True,
    ),
    Figure(
        "fairness_max",
        "Worst finish-time fairness",
        "FTF MAX",
        "",
        "ratio",
        lambda m: m.fairness_max,
        wide=True,
    ),
    Figure(
        "preemptions",
        "Preemptions",
        "PREEMPTED",
        "Times that a gang was stopped for another.",
        "count",
        lambda m: m.preemptions,
    ),
    Figure("killed", "Killed", "KILLED", "Jobs ended by their walltime.", "count", lambda m: m.killed, wide=True),
    Figure(
        "offered_load",
        "Offered load",
        "LOAD",
        "Submitted work, over the cluster's capacity in that time.",
        "ratio",
        lambda m: m.offered_load,
        better="",
        wide=True,
        zero_is_undefined=True,
    ),
)


def mean_and_sd(values: Sequence[float]) -> tuple[float, float]:
    """Returns the mean and the sample standard deviation (n - 1); 0 for one value or equal values."""
    if len(set(values)) == 1:
        return values[0], 0.0
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
