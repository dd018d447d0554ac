"""The description of a study, as complete data: equal descriptions give equal results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.backends.simulator.errors import SimulationError
from windlass.backends.simulator.progress import Costs
from windlass.backends.simulator.study.faults import FaultModel
from windlass.backends.simulator.study.synthetic_trace import SyntheticTrace
from windlass.core.model.policy import Policy
from windlass.jobs.cluster.cluster_file import Cluster

MAX_SEEDS = 10_000
_SEEDS = re.compile(r"^(?:(\d+)-(\d+)|(\d+))$")


@dataclass(frozen=True, slots=True)
class Study:
    """Traces or a distribution to draw one from, the cluster, the policies as the user named them, and the seeds."""

    cluster: Cluster
    policies: Mapping[str, Policy]
    traces: tuple[str, ...] = ()
    """Paths. Several files are the parts of one trace."""
    drawn: SyntheticTrace | None = None
    seeds: tuple[int, ...] = (1,)
    format: str | None = None
    """Format of the traces; None: recognised by their first line."""
    skip_bad: bool = False
    walltimes: str = "trace"
    """One of `backends.simulator.walltimes.WALLTIMES`."""
    load: float | None = None
    """Offered load to which the gaps between arrivals are rescaled. None: unchanged."""
    limit: int | None = None
    """Number of jobs to keep, from the start of the trace. None: all."""
    kill: bool = False
    """Whether jobs are ended when their walltime is over."""
    costs: Costs = field(default_factory=Costs)
    faults: FaultModel | None = None
    """None: run by the replay. Else run through a controller, which is slower."""

    @property
    def random(self) -> str:
        """Names what the seeds change; "" if they change nothing."""
        changed = [
            words
            for words, there in (
                ("the trace is drawn anew", self.drawn is not None),
                ("walltimes are drawn anew", self.walltimes == "users"),
                ("faults are drawn anew", self.faults is not None and bool(self.faults.rates)),
            )
            if there
        ]
        return ", ".join(changed)


def read_seeds(text: str) -> tuple[int, ...]:
    """Parses a count ("3": seeds 1 to 3) or a range ("42-51"). Raises SimulationError."""
    match = _SEEDS.match(text.strip())
    if match is None:
        raise SimulationError(f"seeds expects a count such as 5 or a range such as 42-51, not {text!r}")
    low, high = (1, int(match[3])) if match[3] else (int(match[1]), int(match[2]))
    if not 0 <= high - low < MAX_SEEDS:
        raise SimulationError(f"seeds are {low} to {high}; give at least one, at most {MAX_SEEDS:,}")
    return tuple(range(low, high + 1))
