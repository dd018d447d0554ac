"""One generation of a gang that runs in the sim world: who is alive, and how far its work has come."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from windlass.backends.members import MemberTracker
from windlass.backends.simulator.faults import NORMAL
from windlass.backends.simulator.progress import Costs, work_kept
from windlass.backends.simulator.script import Script
from windlass.core.model.status import Placement


@dataclass(slots=True, eq=False)
class Generation:
    """Times in ms. `run` is time held at normal speed, in thousandths of a ms: what is slowed down counts less."""

    job_id: str
    number: int
    placement: Placement
    nodes: tuple[str, ...]
    """Of each member."""
    members: MemberTracker
    script: Script
    begun: int
    settled: int
    """When `run` was last reckoned."""
    needed: int | None
    """Time at normal speed until its work is done, start and checkpoints included. None: never."""
    pace: int = NORMAL
    """Its speed on nodes that are well: an elastic gang's goes with its size."""
    hurt: bool = False
    """A member was lost or failed: its work goes no further, and it saves nothing any more."""
    asked: int | None = None
    """When it was asked to end."""
    speed: int = NORMAL
    run: int = 0
    plan: int = 0
    """Counts the ends that were planned for it: only the last one is valid."""

    @property
    def alive(self) -> Collection[int]:
        """Members that run."""
        return self.members.alive

    def settle(self, now: int) -> None:
        """Reckon what ran since the last time, at the speed that held until now."""
        if not self.hurt:
            self.run += (now - self.settled) * self.speed
        self.settled = now

    def ends_at(self) -> int | None:
        """When its work will be done if nothing comes between. To be asked for when settled."""
        if self.needed is None or self.hurt:
            return None
        left = self.needed * NORMAL - self.run
        return self.settled + max(0, -(-left // self.speed))

    def kept(self, costs: Costs) -> int:
        """How much of its work is not lost with it."""
        asked = self.asked is not None and not self.hurt
        return work_kept(self.run // NORMAL, costs, first=self.number == 1, asked=asked)
