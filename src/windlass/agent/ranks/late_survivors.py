"""Limits the time for survivors to enter a new membership: late ones are killed and replaced in the same generation.

Under gloo a survivor may wait for a lost message of its peer for minutes. A new rank in its position gets the state
from the other survivors; without any, the generation fails.
"""

from __future__ import annotations

import signal
from typing import Callable

from windlass import wire
from windlass.agent import messages
from windlass.agent.event_loop import DelayedCall, EventLoop
from windlass.agent.ranks.rank_processes import RankProcesses
from windlass.agent.ranks.rank_table import RankTable


class LateSurvivors:
    """The time limit of one membership.

    Calls `fail` with an exit code and a reason where late survivors cannot be replaced.
    """

    def __init__(
        self,
        loop: EventLoop,
        table: RankTable,
        processes: RankProcesses,
        fail: Callable[[wire.RankExitCode, str], None],
    ) -> None:
        self._loop, self._table, self._processes, self._fail = loop, table, processes, fail
        self._timer: DelayedCall | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether survivors still have time to enter the membership."""
        return self._timer is not None

    def begin(self, timeout: float) -> None:
        """Starts the time limit, in seconds; 0: they have not even entered the membership before, so they get none."""
        self._timer = self._loop.after(timeout, lambda: self._on_timeout(timeout))

    def cancel(self) -> None:
        """Ends the time limit."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timeout(self, waited: float) -> None:
        """Kills survivors that have not entered the membership in time, if other ranks may hold the state."""
        table, membership = self._table, self._table.membership
        assert membership is not None  # noqa: S101 - it is the one that they have not entered
        self._timer = None
        late = table.late_survivors()
        reason = messages.describe_late_ranks([rank.number for rank in late.values()], table.generation, waited)
        here = any(rank.survives and rank.ready for rank in table.ranks.values())
        if not waited or not (here or len(membership.members) > 1):
            self._fail(wire.RankExitCode.RETRY, reason)
            return
        messages.print_message(f"{reason}: started anew")
        for rank in late.values():
            rank.replaced = True
        self._processes.send_signal(list(late), signal.SIGKILL, group=True)
