"""The options of a run, as `init` received them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from windlass.train.errors import TrainError
from windlass.train.parallel.plan import Recompute
from windlass.train.telemetry.trackers import TrackerSpec

BadStepPolicy = Literal["stop", "skip", "rollback"]
REPORT_INTERVAL_STEPS = 10
"""Default number of steps between two reports."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options that `init` received."""

    mesh: str
    ac: Recompute
    seed: int
    not_finite: BadStepPolicy
    spike: BadStepPolicy | Literal[""]
    report_every: int
    flops: float | None
    trackers: tuple[TrackerSpec, ...]

    @property
    def report_interval(self) -> int:
        """Steps between two reports, 0 for none. Trackers receive reports even where the console is off."""
        return self.report_every or (REPORT_INTERVAL_STEPS if self.trackers else 0)


def check_policies(not_finite: str, spike: str) -> None:
    """Raise TrainError for an unknown policy."""
    for name, policy in (("not_finite", not_finite), ("spike", spike or "stop")):
        if policy not in get_args(BadStepPolicy):
            raise TrainError(f"{name}={policy!r}: one of {', '.join(get_args(BadStepPolicy))}")
