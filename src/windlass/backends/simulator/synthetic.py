"""Synthetic traces, drawn from a stated distribution. Equal seeds give equal jobs."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from random import Random
from typing import TypeVar

from windlass.backends.simulator.errors import SimulationError
from windlass.backends.simulator.traces.job import Trace, TraceJob
from windlass.backends.simulator.walltimes import estimate
from windlass.core.model.job import DEFAULT_QUEUE

HOUR = 3_600_000
DAY = 24 * HOUR
LONGEST = 60 * DAY
"""Maximum duration of a drawn job in ms: a lognormal distribution has no upper bound."""


@dataclass(frozen=True, slots=True)
class SizeClass:
    """A job size in GPUs: its share of all jobs, and the lognormal distribution of its run times."""

    gpus: int
    weight: float
    median: int
    """Median run time in ms."""
    sigma: float
    """Standard deviation of the run time's natural logarithm."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """The distribution of a synthetic trace. Arrivals are a Poisson process; its rate may follow the hour."""

    mean_gap: int
    """Mean time between two arrivals, in ms."""
    sizes: tuple[SizeClass, ...]
    by_hour: tuple[float, ...] = ()
    """24 weights, the relative rate of each hour in UTC. Empty: a constant rate."""
    queues: tuple[tuple[str, float], ...] = ((DEFAULT_QUEUE, 1.0),)
    """(name, weight)"""
    users: int = 1
    """Number of users in each queue, with equal rates."""
    walltimes: bool = True
    """Whether jobs have a user's walltime estimate (`backends.simulator.walltimes`)."""

    @property
    def mean_work(self) -> float:
        """Mean GPU-ms of a job, without the bound LONGEST. A lognormal's mean is median × exp(sigma² / 2)."""
        total = sum(size.weight for size in self.sizes)
        return sum(s.weight * s.gpus * s.median * math.exp(s.sigma**2 / 2) for s in self.sizes) / total

    def at_load(self, gpus: int, load: float) -> Distribution:
        """Returns the distribution with the arrival rate that offers `load` times the capacity of `gpus` GPUs."""
        return replace(self, mean_gap=max(1, round(self.mean_work / (gpus * load))))


def synthesize(distribution: Distribution, jobs: int, seed: int, *, start: int = 0) -> Trace:
    """Draws `jobs` jobs, the first after `start` ms. Raises SimulationError if the distribution has no jobs."""
    _check(distribution, jobs)
    rng = Random(seed)  # noqa: S311 - a model, no secret
    arrivals = _arrivals(distribution, start, rng)
    drawn = tuple(_job(distribution, number, next(arrivals), rng) for number in range(1, jobs + 1))
    return Trace(f"synthetic-{seed}", "synthetic", drawn)


def _check(distribution: Distribution, jobs: int) -> None:
    if jobs < 1 or distribution.mean_gap < 1:
        raise SimulationError(f"a trace of {jobs} jobs, {distribution.mean_gap} ms apart; give one of each at least")
    if not distribution.sizes or sum(size.weight for size in distribution.sizes) <= 0:
        raise SimulationError("a distribution needs sizes with weights, such as 8 GPUs, weight 1, median 1h, sigma 1.5")
    if distribution.by_hour and (len(distribution.by_hour) != 24 or max(distribution.by_hour) <= 0):
        raise SimulationError(f"by_hour has {len(distribution.by_hour)} weights; give 24, not all of them 0")


def _job(distribution: Distribution, number: int, submit: int, rng: Random) -> TraceJob:
    size = _draw(distribution.sizes, [size.weight for size in distribution.sizes], rng)
    queue, _ = _draw(distribution.queues, [weight for _, weight in distribution.queues], rng)
    duration = min(max(1000, round(size.median * rng.lognormvariate(0.0, size.sigma))), LONGEST)
    user = f"{queue}-u{rng.randrange(distribution.users) + 1}"
    limit = estimate(duration, rng) if distribution.walltimes else None
    return TraceJob(
        f"s-{number}", submit, duration, gpus=size.gpus, replicas=None, user=user, queue=queue, walltime=limit
    )


def _arrivals(distribution: Distribution, start: int, rng: Random) -> Iterator[int]:
    """Draws arrivals by thinning: candidates at the peak rate, kept at each hour's rate (Lewis, Shedler 1979)."""
    hours = distribution.by_hour or (1.0,) * 24
    busiest, mean = max(hours), sum(hours) / 24
    now = float(start)
    while True:
        now += rng.expovariate(1.0) * distribution.mean_gap * mean / busiest
        if rng.random() * busiest <= hours[int(now // HOUR) % 24]:
            yield round(now)


_Option = TypeVar("_Option")


def _draw(options: Sequence[_Option], weights: Sequence[float], rng: Random) -> _Option:
    sums = list(accumulate(weights))
    return options[min(bisect(sums, rng.random() * sums[-1]), len(options) - 1)]
