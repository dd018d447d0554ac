"""Fits a synthetic distribution to a trace."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from statistics import fmean, pstdev

from windlass.backends.simulator.errors import SimulationError
from windlass.backends.simulator.synthetic import HOUR, Distribution, SizeClass
from windlass.backends.simulator.traces.job import Trace, TraceJob

_ENOUGH_FOR_HOURS = 24 * 10
"""Minimum number of jobs for hourly rates: with fewer, the hours of the day are noise."""


def fit_distribution(trace: Trace) -> Distribution:
    """Fits mean gap, hourly rates, sizes with a lognormal of run times each, and queues.

    Considers jobs with whole GPUs only; raises SimulationError if there are none. Sizes are totals of a job.
    Each size has the median and spread of its own jobs, which keeps a correlation of size and duration.
    """
    jobs = [job for job in trace.jobs if _gpus(job) and job.duration > 0]
    if len(jobs) < 2:
        raise SimulationError(f"{trace.place} has {len(jobs)} jobs with whole GPUs and a run time; a fit needs two")
    span = jobs[-1].submit - jobs[0].submit
    queues = Counter(job.queue for job in jobs)
    return Distribution(
        mean_gap=max(1, round(span / (len(jobs) - 1))),
        sizes=_sizes(jobs),
        by_hour=_hours(jobs) if len(jobs) >= _ENOUGH_FOR_HOURS and span >= 24 * HOUR else (),
        queues=tuple((name, count / len(jobs)) for name, count in sorted(queues.items())),
        users=max(1, round(len({(job.queue, job.user) for job in jobs}) / len(queues))),
    )


def _gpus(job: TraceJob) -> int:
    return job.gpus * (job.replicas or 1)


def _sizes(jobs: list[TraceJob]) -> tuple[SizeClass, ...]:
    logs: defaultdict[int, list[float]] = defaultdict(list)
    for job in jobs:
        logs[_gpus(job)].append(math.log(job.duration))
    return tuple(
        SizeClass(gpus, len(of_size) / len(jobs), round(math.exp(fmean(of_size))), pstdev(of_size))
        for gpus, of_size in sorted(logs.items())
    )


def _hours(jobs: list[TraceJob]) -> tuple[float, ...]:
    counts = Counter(job.submit // HOUR % 24 for job in jobs)
    return tuple(24 * counts[hour] / len(jobs) for hour in range(24))
