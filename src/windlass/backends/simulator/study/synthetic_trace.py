"""A synthetic trace, described on one line: the number of jobs and the distribution that they are drawn from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from windlass.backends.simulator.errors import SimulationError
from windlass.backends.simulator.synthetic import Distribution, SizeClass, synthesize
from windlass.backends.simulator.traces.job import Trace
from windlass.core.model.resources import GPU
from windlass.jobs.cluster.cluster_file import Cluster
from windlass.jobs.syntax import value_types
from windlass.jobs.syntax.field import Field, Shape, Table
from windlass.jobs.syntax.settings_line import read_spelled
from windlass.jobs.syntax.value_types import Plain, ValueType, whole

OFFICE_HOURS = tuple(1.0 + 0.8 * math.cos((hour - 15) / 24 * 2 * math.pi) for hour in range(24))
"""Relative arrival rate by hour: highest at 15:00, lowest at 3:00, ratio nine."""


def _read_number(value: Plain) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 100:
        raise ValueError(f"expects a number above 0, at most 100, not {value_types.show(value)}")
    return float(value)


_NUMBER = ValueType("number above 0", {"type": "number"}, _read_number, float)
FIELDS: Table = (
    Field("jobs", "Number of jobs.", whole(1, 1_000_000), default="1000", example="5000"),
    Field("load", "Work that the jobs request, over the cluster's capacity.", _NUMBER, default="0.9", example="1.1"),
    Field(
        "sizes",
        "Sizes of jobs in GPUs; each is half as frequent as the one before it.",
        whole(1, 100_000),
        Shape.LIST,
        default="1/2/4/8/16/32",
        example="1/8/64",
    ),
    Field("median", "Median run time.", value_types.LIMIT, default="30m", example="2h"),
    Field("sigma", "Standard deviation of the run time's logarithm.", _NUMBER, default="1.5", example="2"),
    Field("queues", "Queues, all equally busy.", whole(1, 1_000), default="3", example="15"),
    Field("users", "Users in each queue.", whole(1, 1_000), default="10", example="4"),
    Field("daily", "Whether days have busy hours.", value_types.FLAG, default="true", example="false"),
)


@dataclass(frozen=True, slots=True)
class SyntheticTrace:
    """A distribution of jobs, and the number of jobs to draw from it."""

    distribution: Distribution
    jobs: int

    def trace(self, seed: int) -> Trace:
        """Draws the trace. Equal seeds give equal jobs."""
        return synthesize(self.distribution, self.jobs, seed)

    @property
    def about(self) -> str:
        """Describes the distribution for people."""
        sizes = "/".join(str(size.gpus) for size in self.distribution.sizes)
        return f"drawn from a distribution: Poisson arrivals, {sizes} GPUs, lognormal run times"


def parse_synthetic_trace(text: str, cluster: Cluster) -> SyntheticTrace:
    """Parses `jobs=1000 load=0.9 …` for a cluster; every setting has a default. Raises SimulationError."""
    try:
        given = read_spelled(text.replace(",", " ").split(), FIELDS)
    except ValueError as error:
        raise SimulationError(f"--synthetic: {error}") from None
    gpus = sum(node.capacity.get(GPU, 0) for node in cluster.nodes)
    if not gpus:
        raise SimulationError("--synthetic draws jobs that request GPUs, and this cluster has none")
    sizes = given.get("sizes", tuple(size for size in (1, 2, 4, 8, 16, 32) if size <= gpus))
    if max(sizes) > gpus:
        raise SimulationError(f"--synthetic: sizes has {max(sizes)} GPUs, and the cluster {gpus}")
    return SyntheticTrace(_distribution(given, sizes).at_load(gpus, given.get("load", 0.9)), given.get("jobs", 1_000))


def _distribution(given: dict[str, Any], sizes: tuple[int, ...]) -> Distribution:
    median, sigma = given.get("median", 30 * 60_000), given.get("sigma", 1.5)
    queues = given.get("queues", 3)
    return Distribution(
        mean_gap=1,
        sizes=tuple(SizeClass(gpus, 0.5**place, median, sigma) for place, gpus in enumerate(sizes)),
        by_hour=OFFICE_HOURS if given.get("daily", True) else (),
        queues=tuple((f"q{number}", 1.0) for number in range(1, queues + 1)),
        users=given.get("users", 10),
    )
