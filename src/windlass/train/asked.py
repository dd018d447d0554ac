"""What a script asks for at the start of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from windlass.train.errors import TrainError
from windlass.train.parallel.plan import Recompute
from windlass.train.telemetry.trackers import Wanted

OnTrouble = Literal["stop", "skip", "rollback"]
REPORT_EVERY = 10
"""Steps."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What `init` was told."""

    mesh: str
    ac: Recompute
    seed: int
    not_finite: OnTrouble
    spike: OnTrouble | Literal[""]
    report_every: int
    flops: float | None
    trackers: tuple[Wanted, ...]

    @property
    def tells_every(self) -> int:
        """Steps from one report to the next, 0 for none: trackers have them where the console has not, too."""
        return self.report_every or (REPORT_EVERY if self.trackers else 0)


def refuse_unknown(not_finite: str, spike: str) -> None:
    """Raises TrainError for a word that is no policy."""
    for name, said in (("not_finite", not_finite), ("spike", spike or "stop")):
        if said not in get_args(OnTrouble):
            raise TrainError(f"{name}={said!r}: one of {', '.join(get_args(OnTrouble))}")
