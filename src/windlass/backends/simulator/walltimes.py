"""Walltimes of simulated jobs: those of the trace, none, the exact run time, or a model of users' estimates.

Users overestimate and choose round numbers: about one estimate in seven is near exact, for the others the used share
is uniformly distributed, and nearly all estimates are one of some twenty values.
Source: Tsafrir, Etsion, Feitelson, "Modeling User Runtime Estimates", JSSPP'05, and "Backfilling Using
System-Generated Predictions Rather Than User Runtime Estimates", TPDS 2007.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from random import Random

from windlass.backends.simulator.errors import SimulationError
from windlass.backends.simulator.traces.job import Trace

_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
ROUND = (
    *(minutes * _MINUTE for minutes in (5, 10, 15, 20, 30, 45)),
    *(hours * _HOUR for hours in (1, 2, 3, 4, 6, 8, 12, 18)),
    *(days * _DAY for days in (1, 2, 3, 4, 5, 7, 10, 14, 21, 30, 60, 90)),
)
"""Common estimates, in ms."""

_NEAR_EXACT = 0.15
_LEAST_NEAR = 0.95
"""Minimum accuracy of a near-exact estimate."""
_MAX_ESTIMATE_MS = 30 * _DAY
"""Maximum estimate in ms, unless the job runs longer."""


def estimate(duration: int, rng: Random) -> int:
    """Draws a user's estimate for a job of `duration` ms; never less than that."""
    accuracy = rng.uniform(_LEAST_NEAR, 1.0) if rng.random() < _NEAR_EXACT else 1.0 - rng.random()
    return max(rounded_up(duration), min(rounded_up(int(duration / accuracy)), _MAX_ESTIMATE_MS))


def rounded_up(ms: int) -> int:
    """Rounds up to the next common estimate; to whole days above the largest."""
    place = bisect_left(ROUND, ms)
    return ROUND[place] if place < len(ROUND) else -(-ms // _DAY) * _DAY


def _estimated(trace: Trace, seed: int) -> Trace:
    rng = Random(seed)  # noqa: S311 - a model, no secret
    return replace(trace, jobs=tuple(replace(job, walltime=estimate(job.duration, rng)) for job in trace.jobs))


def _exact(trace: Trace, _seed: int) -> Trace:
    return replace(trace, jobs=tuple(replace(job, walltime=max(1, job.duration)) for job in trace.jobs))


def _none(trace: Trace, _seed: int) -> Trace:
    return replace(trace, jobs=tuple(replace(job, walltime=None) for job in trace.jobs))


def _as_traced(trace: Trace, _seed: int) -> Trace:
    return trace


WALLTIMES: dict[str, Callable[[Trace, int], Trace]] = {
    "trace": _as_traced,
    "none": _none,
    "exact": _exact,
    "users": _estimated,
}
"""Walltime models by name: the trace's own, none, exact, and the user model above."""


def with_walltimes(trace: Trace, kind: str, seed: int = 0) -> Trace:
    """Sets walltimes by one of WALLTIMES. Equal seeds give equal results. Raises SimulationError."""
    if kind not in WALLTIMES:
        raise SimulationError(f"there are no walltimes {kind!r}; there are {', '.join(WALLTIMES)}")
    return WALLTIMES[kind](trace, seed)
