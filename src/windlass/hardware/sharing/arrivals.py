"""Times of arrivals and amounts of work: from a seed and a rate, or from a trace.

Assumptions: Poisson arrivals, with a rate that is higher during a part of each cycle; durations are gamma-distributed
with a coefficient of variation of 0.5. The seed and the name of a workload determine both, so that all uses of GPUs
are compared on the same arrivals.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from windlass.hardware.sharing.request import Arrivals, Workload

ARRIVALS = 4000
"""Simulated arrivals of one workload."""
_SHAPE = 4.0
"""Shape of the gamma distribution: 1 / 0.5²."""


class ArrivalSeries(NamedTuple):
    """Times of arrivals in seconds, the seconds of each on a whole GPU, and the pod of each notebook as a fraction."""

    times: NDArray[np.float64]
    works: NDArray[np.float64]
    pods: NDArray[np.float64]


def draw_arrivals(workload: Workload, pods: int, seed: int) -> ArrivalSeries:
    """Returns the arrivals for `pods` of the workload's pods, which get their part of all arrivals."""
    assert workload.arrivals is not None  # noqa: S101 - the callers simulate only workloads with arrivals
    random = np.random.default_rng([seed, zlib.crc32(workload.name.encode())])
    gaps = random.exponential(size=ARRIVALS)
    works = random.gamma(_SHAPE, workload.duration_s / _SHAPE, ARRIVALS)
    choice = random.random(ARRIVALS)
    if workload.arrivals.trace:
        times = np.array(workload.arrivals.trace[:ARRIVALS])
        kept = random.random(len(times)) < pods / workload.number
        return ArrivalSeries(times[kept], works[: len(times)][kept], choice[: len(times)][kept])
    times = _times(workload.arrivals, workload.arrivals.rate * pods / workload.number, gaps)
    return ArrivalSeries(times, works, choice)


def mean_rate(arrivals: Arrivals) -> float:
    """Returns the arrivals a second on average."""
    if not arrivals.trace:
        return arrivals.rate
    span = arrivals.trace[-1] - arrivals.trace[0]
    return (len(arrivals.trace) - 1) / span if span else 0.0


def _times(arrivals: Arrivals, rate: float, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Maps gaps of a unit Poisson process to times: a cycle has its peak first, then the rest."""
    cycles = np.cumsum(gaps) / (rate * arrivals.cycle_s)
    whole = np.floor(cycles)
    part = cycles - whole
    in_peak = min(1.0, arrivals.burst * arrivals.duty)
    peak = arrivals.duty * part / in_peak
    if in_peak == 1.0:
        return (whole + peak) * arrivals.cycle_s
    rest = arrivals.duty + (1 - arrivals.duty) * (part - in_peak) / (1 - in_peak)
    return (whole + np.where(part < in_peak, peak, rest)) * arrivals.cycle_s
