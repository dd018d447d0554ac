"""One simulated generation of a gang: its living members, and its progress."""

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
    """One start of a simulated gang. Times in ms.

    `run` is time at normal speed, in thousandths of a ms: slowed time counts less.
    """

    job_id: str
    number: int
    placement: Placement
    nodes: tuple[str, ...]
    """Node of each member."""
    members: MemberTracker
    script: Script
    begun: int
    settled: int
    """Time at which `run` was last updated."""
    needed: int | None
    """Time at normal speed until its work is done, with start and checkpoints. None: never."""
    base_speed: int = NORMAL
    """Speed on healthy nodes; that of an elastic gang depends on its size."""
    failed: bool = False
    """Whether a member was lost or failed: the gang makes no progress and saves nothing any more."""
    stop_requested_at: int | None = None
    """Time at which its end was requested."""
    speed: int = NORMAL
    run: int = 0
    plan: int = 0
    """Number of scheduled ends: only the last one is valid."""

    @property
    def alive(self) -> Collection[int]:
        """Members that run."""
        return self.members.alive

    def settle(self, now: int) -> None:
        """Updates `run` at the speed since the last update."""
        if not self.failed:
            self.run += (now - self.settled) * self.speed
        self.settled = now

    def ends_at(self) -> int | None:
        """Returns the time at which its work is done if nothing changes. Valid after `settle`."""
        if self.needed is None or self.failed:
            return None
        remaining = self.needed * NORMAL - self.run
        return self.settled + max(0, -(-remaining // self.speed))

    def saved_work(self, costs: Costs) -> int:
        """Returns the work that survives its end."""
        stopped = self.stop_requested_at is not None and not self.failed
        return work_kept(self.run // NORMAL, costs, first=self.number == 1, stopped=stopped)
