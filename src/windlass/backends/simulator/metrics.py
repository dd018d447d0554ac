"""Computes the metrics of an Outcome that policies are compared by. Times in ms, shares in [0, 1]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from windlass.backends.simulator.gangs import requested_units
from windlass.backends.simulator.outcome import EndCause, Outcome

BOUND = 10_000
"""Minimum run time in bounded slowdown, in ms: Feitelson et al., "Theory and Practice in Parallel Job
Scheduling", JSSPP'97."""
UNFAIR = 1.05
SIZES = (0, 1, 2, 4, 8, 16, 32, 64, 128)
"""Lower ends of the size classes, in units."""

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Spread:
    """Distribution figures. p50 and p99 are sorted[int(.5 n)] and sorted[int(.99 n)]; all 0 for no values."""

    avg: float = 0.0
    p50: float = 0.0
    p99: float = 0.0
    max: float = 0.0


@dataclass(frozen=True, slots=True)
class GroupMetrics:
    """Metrics of a subset of the jobs."""

    jobs: int
    jct: Spread
    """Time from submission to the end."""
    wait: Spread
    """Time from submission to the end, minus the time on nodes."""
    slowdown: Spread
    """max(1, JCT / max(run time, BOUND))."""
    held: float
    """Held amount of the outcome's unit times hours: GPU-hours, or core-hours."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics of one replay."""

    everything: GroupMetrics
    by_queue: Mapping[str, GroupMetrics]
    by_size: Mapping[str, GroupMetrics]
    makespan: int
    """Time from the first submission to the last end."""
    unallocated: float
    """Share of the capacity over the makespan that no job held."""
    fragmentation: float
    """Average share of free capacity that is unusable: on a node with less free than the next job needs, with that job
    drawn from the trace (after FGD, ATC'23)."""
    offered_load: float
    """Submitted work over the capacity of the period of submission; 0 if all jobs arrive together."""
    fairness_max: float
    """Worst finish-time fairness: JCT over the run time multiplied by the contention during the job's life."""
    unfair: float
    """Share of the jobs with finish-time fairness above UNFAIR."""
    preemptions: int
    killed: int
    left_out: Mapping[str, int]


def measure(outcome: Outcome) -> Metrics:
    """Computes all metrics of an outcome."""
    jobs = _jobs(outcome)
    fairness = finish_time_fairness(outcome, jobs)
    return Metrics(
        everything=_group(jobs, np.ones(len(jobs.jct), dtype=np.bool_)),
        by_queue={str(name): _group(jobs, jobs.queue == name) for name in np.unique(jobs.queue)},
        by_size={name: _group(jobs, within) for name, within in _classes(jobs.units)},
        makespan=_makespan(outcome),
        unallocated=_unallocated(outcome),
        fragmentation=fragmentation(outcome),
        offered_load=_offered_load(outcome, jobs),
        fairness_max=float(fairness.max(initial=0.0)),
        unfair=float((fairness > UNFAIR).mean()) if len(fairness) else 0.0,
        preemptions=int((outcome.cause == EndCause.PREEMPTED).sum()),
        killed=int((outcome.cause == EndCause.KILLED).sum()),
        left_out=outcome.left_out,
    )


def spread(values: Values) -> Spread:
    """Computes the figures of one distribution."""
    if not len(values):
        return Spread()
    ordered = np.sort(values)
    at = [float(ordered[int(share * len(ordered))]) for share in (0.5, 0.99)]
    return Spread(float(ordered.mean()), at[0], at[1], float(ordered[-1]))


# --- the jobs -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Jobs:
    """The replayed jobs by column; times in ms."""

    submit: Values
    jct: Values
    held: Values
    duration: Values
    units: Values
    """Total GPUs (or cores) of each job."""
    queue: NDArray[np.str_]


def _jobs(outcome: Outcome) -> Jobs:
    ended, trace = outcome.ended, outcome.trace.jobs
    return Jobs(
        submit=outcome.submit[ended].astype(np.float64),
        jct=(outcome.last_end - outcome.submit)[ended].astype(np.float64),
        held=outcome.held[ended].astype(np.float64),
        duration=np.array([job.duration for job in trace], dtype=np.float64)[ended],
        units=np.array([requested_units(job, outcome.unit) for job in trace], dtype=np.float64)[ended] / 1000,
        queue=np.array([job.queue for job in trace])[ended],
    )


def _group(jobs: Jobs, within: NDArray[np.bool_]) -> GroupMetrics:
    jct, held = jobs.jct[within], jobs.held[within]
    slowdown = np.maximum(1.0, jct / np.maximum(jobs.duration[within], BOUND))
    hours = float((held * jobs.units[within]).sum()) / 3_600_000
    return GroupMetrics(len(jct), spread(jct), spread(jct - held), spread(slowdown), hours)


def _classes(units: Values) -> list[tuple[str, NDArray[np.bool_]]]:
    """Returns ("2–3", mask of jobs) for every non-empty size class."""
    uppers = [*SIZES[1:], np.inf]
    classes = [
        (_class_name(low, high), (units >= low) & (units < high)) for low, high in zip(SIZES, uppers, strict=True)
    ]
    return [(name, within) for name, within in classes if within.any()]


def _class_name(low: float, high: float) -> str:
    if high == np.inf:
        return f"{low:g}+"
    return "below 1" if low == 0 else f"{low:g}" if high - low == 1 else f"{low:g}–{high - 1:g}"


def finish_time_fairness(outcome: Outcome, jobs: Jobs) -> Values:
    """Returns JCT / (run time × contention) for each job; contention is the mean of max(1, requested / capacity).

    The mean is over the job's life. Above 1 a job did worse than with an equal part of the cluster to itself. Source:
    Themis (NSDI'20), with the contention computed as in Shockwave (NSDI'23).
    """
    arrived, left = jobs.submit, jobs.submit + jobs.jct
    times = np.concatenate((arrived, left))
    order = np.argsort(times, kind="stable")
    demand = np.cumsum(np.concatenate((jobs.units, -jobs.units))[order])
    contention = np.maximum(1.0, demand / max(1.0, outcome.capacity / 1000))
    moments = times[order]
    passed = np.concatenate(([0.0], np.cumsum(contention[:-1] * np.diff(moments))))
    met = np.interp(left, moments, passed) - np.interp(arrived, moments, passed)
    alone = np.maximum(jobs.duration, 1.0) * met / np.maximum(jobs.jct, 1.0)
    found: Values = jobs.jct / np.maximum(alone, 1.0)
    return found


# --- the cluster ----------------------------------------------------------------------------------


def _makespan(outcome: Outcome) -> int:
    return int(outcome.end.max() - outcome.submit.min()) if len(outcome.end) else 0


def _unallocated(outcome: Outcome) -> float:
    span = float(_makespan(outcome)) * outcome.capacity
    used = float(((outcome.end - outcome.begin).astype(np.float64) * outcome.held_units).sum())
    return 1 - used / span if span else 0.0


def _offered_load(outcome: Outcome, jobs: Jobs) -> float:
    span = float(np.ptp(jobs.submit)) if len(jobs.submit) else 0.0
    return float((jobs.duration * jobs.units).sum()) / (span * outcome.capacity / 1000) if span else 0.0


def fragmentation(outcome: Outcome) -> float:
    """Computes, over all nodes: free × the share of the trace's jobs that need more on one node, divided by free."""
    if not len(outcome.end):
        return 0.0
    free, lasted, _ = free_by_node(outcome)
    needs = np.sort([min(requested_units(job, outcome.unit), int(outcome.by_node.max())) for job in outcome.trace.jobs])
    needs = needs[needs > 0]
    unusable = 1 - np.searchsorted(needs, free, side="right") / max(1, len(needs))
    room = free.astype(np.float64) * lasted
    return float((room * unusable).sum() / room.sum()) if room.sum() else 0.0


def free_by_node(outcome: Outcome) -> tuple[NDArray[np.int64], Values, NDArray[np.int64]]:
    """Returns (free, lasted, row): every interval in which a node's free amount was constant.

    Covers the time from the first start to the last end; `free` in thousandths, `lasted` in ms.
    """
    begin, end = int(outcome.begin.min()), int(outcome.end.max())
    rows = np.arange(len(outcome.nodes))
    of_seat = np.repeat(np.arange(len(outcome.job)), np.diff(outcome.seats))
    row: NDArray[np.int64] = np.concatenate((rows, outcome.row, outcome.row))
    time = np.concatenate((np.full(len(rows), begin), outcome.begin[of_seat], outcome.end[of_seat]))
    delta = np.concatenate((outcome.by_node, -outcome.amount, outcome.amount)).astype(np.int64)
    order = np.lexsort((time, row))
    row, time, delta = row[order], time[order], delta[order]
    total = np.cumsum(delta)
    first = np.flatnonzero(np.diff(row, prepend=-1))
    before = np.repeat(np.concatenate(([0], total[first[1:] - 1])), np.diff(np.append(first, len(row))))
    until = np.append(time[1:], end)
    until[np.append(first[1:] - 1, len(row) - 1)] = end
    lasted: Values = (until - time).astype(np.float64)
    return total - before, lasted, row
