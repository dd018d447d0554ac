"""Synthetic traces: they follow their distribution, and equal seeds give equal bytes."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean, median

import pytest

from windlass.backends.simulator.distribution_fit import fit_distribution
from windlass.backends.simulator.errors import SimulationError
from windlass.backends.simulator.synthetic import DAY, HOUR, Distribution, SizeClass, synthesize
from windlass.backends.simulator.traces.jsonl import written
from windlass.backends.simulator.walltimes import ROUND, with_walltimes

DISTRIBUTION = Distribution(60_000, (SizeClass(1, 3.0, HOUR, 1.0), SizeClass(8, 1.0, 4 * HOUR, 0.5)), users=3)
BUSY_MORNINGS = replace(DISTRIBUTION, by_hour=(0.0,) * 8 + (5.0,) * 4 + (1.0,) * 12)


def test_the_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    first, again, other = (written(synthesize(DISTRIBUTION, 200, seed).jobs) for seed in (7, 7, 8))
    assert first == again != other


def test_arrivals_sizes_and_run_times_follow_the_distribution() -> None:
    jobs = synthesize(DISTRIBUTION, 8000, 1).jobs
    assert jobs[-1].submit / len(jobs) == pytest.approx(60_000, rel=0.05)
    assert sum(job.gpus == 8 for job in jobs) / len(jobs) == pytest.approx(0.25, rel=0.05)
    assert median(job.duration for job in jobs if job.gpus == 1) == pytest.approx(HOUR, rel=0.05)
    assert {job.user for job in jobs} == {"default-u1", "default-u2", "default-u3"}


def test_a_daily_cycle_keeps_the_mean_gap_and_the_quiet_hours() -> None:
    jobs = synthesize(BUSY_MORNINGS, 8000, 1).jobs
    assert jobs[-1].submit / len(jobs) == pytest.approx(60_000, rel=0.1)
    hours = [job.submit // HOUR % 24 for job in jobs]
    assert not any(hour < 8 for hour in hours)
    assert sum(8 <= hour < 12 for hour in hours) / len(hours) == pytest.approx(20 / 32, rel=0.1)


def test_a_distribution_can_be_scaled_to_a_load() -> None:
    distribution = DISTRIBUTION.at_load(64, 0.9)
    jobs = synthesize(distribution, 20_000, 3).jobs
    assert sum(job.gpus * job.duration for job in jobs) / (64 * jobs[-1].submit) == pytest.approx(0.9, rel=0.05)


def test_a_fitted_distribution_is_the_one_that_the_trace_was_drawn_from() -> None:
    distribution = replace(BUSY_MORNINGS, queues=(("a", 0.25), ("b", 0.75)))
    found = fit_distribution(synthesize(distribution, 8000, 5))
    assert found.mean_gap == pytest.approx(distribution.mean_gap, rel=0.1)
    small, large = found.sizes
    assert (small.gpus, large.gpus, found.users) == (1, 8, 3)
    assert (small.weight, large.sigma) == (pytest.approx(0.75, rel=0.05), pytest.approx(0.5, rel=0.05))
    assert large.median == pytest.approx(4 * HOUR, rel=0.05)
    assert dict(found.queues)["b"] == pytest.approx(0.75, rel=0.05)
    assert found.by_hour[0] == 0.0
    assert found.by_hour[9] == pytest.approx(24 * 5 / 32, rel=0.15)


@pytest.mark.parametrize(
    ("distribution", "message"),
    [
        (replace(DISTRIBUTION, sizes=()), "a distribution needs sizes with weights"),
        (replace(DISTRIBUTION, by_hour=(1.0,)), "by_hour has 1 weights; give 24"),
        (replace(DISTRIBUTION, mean_gap=0), "a trace of 10 jobs, 0 ms apart"),
    ],
)
def test_an_empty_distribution_is_refused(distribution: Distribution, message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        synthesize(distribution, 10, 1)


def test_modelled_walltimes_are_round_sufficient_and_mostly_much_too_long() -> None:
    trace = with_walltimes(synthesize(DISTRIBUTION, 5000, 2), "users", seed=4)
    walltimes = [(job.walltime or 0, job.duration) for job in trace.jobs]
    assert all(walltime >= duration for walltime, duration in walltimes)
    assert {walltime for walltime, _ in walltimes} <= set(ROUND)
    used = [duration / walltime for walltime, duration in walltimes]
    assert 0.3 < fmean(used) < 0.6
    assert math.isclose(sum(share > 0.5 for share in used) / len(used), 0.5, abs_tol=0.1)


def test_walltimes_are_removed_exact_or_those_of_the_trace() -> None:
    trace = synthesize(DISTRIBUTION, 20, 2)
    assert with_walltimes(trace, "trace") == trace
    assert {job.walltime for job in with_walltimes(trace, "none").jobs} == {None}
    assert all(job.walltime == job.duration for job in with_walltimes(trace, "exact").jobs)
    with pytest.raises(SimulationError, match="there are no walltimes 'real'; there are trace, none, exact, users"):
        with_walltimes(trace, "real")


def test_a_job_beyond_the_common_walltimes_gets_whole_days() -> None:
    long = replace(synthesize(DISTRIBUTION, 1, 2).jobs[0], duration=100 * DAY + 1)
    trace = replace(synthesize(DISTRIBUTION, 1, 2), jobs=(long,))
    assert with_walltimes(trace, "users").jobs[0].walltime == 101 * DAY
