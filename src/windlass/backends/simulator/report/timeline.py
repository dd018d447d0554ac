"""Step functions of time, averaged over equal intervals, so that charts of any trace are exact on average."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from windlass.backends.simulator.gangs import requested_units
from windlass.backends.simulator.metrics import free_by_node
from windlass.backends.simulator.outcome import NEVER, Outcome

Values = NDArray[np.float64]
Times = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class StepFunction:
    """A function of time that is 0 at first and changes by `delta` (float64[C]) at `time` (int64[C], sorted, ms)."""

    time: Times
    delta: Values


def sum_intervals(begin: Times, end: Times, amount: NDArray[np.integer] | Values) -> StepFunction:
    """Returns the sum of intervals, each with `amount` from `begin` to `end`; arguments are arrays."""
    time = np.concatenate((begin, end))
    delta = np.concatenate((amount, -amount)).astype(np.float64)
    order = np.argsort(time, kind="stable")
    return StepFunction(time[order], delta[order])


def interval_means(of: StepFunction, edges: Times) -> Values:
    """Returns the average between each two edges (int64[E], increasing, ms) as float64[E - 1]."""
    if not len(of.time):
        return np.zeros(len(edges) - 1)
    height = np.cumsum(of.delta)
    area = np.concatenate(([0.0], np.cumsum(height[:-1] * np.diff(of.time))))
    last = np.searchsorted(of.time, edges, side="right") - 1
    inside = np.maximum(last, 0)
    reached = np.where(last >= 0, area[inside] + height[inside] * (edges - of.time[inside]), 0.0)
    found: Values = np.diff(reached) / np.diff(edges)
    return found


def held_amount(outcome: Outcome) -> StepFunction:
    """Returns the held amount of the outcome's unit, in thousandths."""
    return sum_intervals(outcome.begin, outcome.end, outcome.held_units)


def wanted_amount(outcome: Outcome) -> StepFunction:
    """Returns the amount requested by waiting jobs, in thousandths: before their first run and between runs."""
    there = np.flatnonzero(outcome.first_begin != NEVER)
    order = np.lexsort((outcome.begin, outcome.job))
    job, begin, end = outcome.job[order], outcome.begin[order], outcome.end[order]
    again = np.flatnonzero(job[1:] == job[:-1])
    asks = np.array([requested_units(one, outcome.unit) for one in outcome.trace.jobs], dtype=np.int64)
    return sum_intervals(
        np.concatenate((outcome.submit[there], end[again])),
        np.concatenate((outcome.first_begin[there], begin[again + 1])),
        np.concatenate((asks[there], asks[job[again]])),
    )


def unusable_share(outcome: Outcome, edges: Times) -> Values:
    """Returns, between each two edges, the share of free capacity on nodes with too little free for the next job.

    The next job is drawn from the trace, as in `metrics.fragmentation`, which is the average of this function over
    time. NaN where nothing is free.
    """
    free, lasted, row = free_by_node(outcome)
    needs = np.sort([min(requested_units(job, outcome.unit), int(outcome.by_node.max())) for job in outcome.trace.jobs])
    needs = needs[needs > 0]
    share = 1 - np.searchsorted(needs, free, side="right") / max(1, len(needs))
    first = np.flatnonzero(np.diff(row, prepend=-1))
    passed = np.concatenate(([0.0], np.cumsum(lasted)[:-1]))
    begin = outcome.begin.min() + (passed - np.repeat(passed[first], np.diff(np.append(first, len(row))))).astype(
        np.int64
    )
    end = begin + lasted.astype(np.int64)
    lost, room = (
        interval_means(sum_intervals(begin, end, free * share), edges),
        interval_means(sum_intervals(begin, end, free), edges),
    )
    found: Values = np.divide(lost, room, out=np.full(len(room), np.nan), where=room > 0.5)
    return found
