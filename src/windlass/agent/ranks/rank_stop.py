"""Stops this node's ranks: a signal, SIGKILL after a grace period, and the event RanksStopped when none is left."""

from __future__ import annotations

import signal
import time

from windlass.agent.event_loop import DelayedCall, EventLoop
from windlass.agent.options import Options
from windlass.agent.rank_events import RanksStopped
from windlass.agent.ranks.output import RankOutput
from windlass.agent.ranks.rank_parts import RankParts
from windlass.wire import RankExitCode

_FAILURE_GRACE_S = 1.0
"""Time from SIGTERM to SIGKILL for ranks whose gang is broken: they can do nothing that takes longer."""


class RankStop:
    """The stop of one generation. Reports RanksStopped once, when the last rank has ended."""

    def __init__(self, loop: EventLoop, options: Options, output: RankOutput, parts: RankParts) -> None:
        self._loop, self._options, self._output, self._parts = loop, options, output, parts
        self._kill: DelayedCall | None = None

    def begin(self, reason: str, signum: int, *, graceful: bool) -> None:
        """Sends the signal. `graceful`: with the whole grace period, to the ranks' process groups."""
        self._parts.table.is_stopping = True
        self._parts.restarts.begin(reason, time.monotonic())
        self._parts.processes.send_signal(self._parts.table.alive(), signum, group=graceful)
        grace = self._options.shutdown_timeout if graceful else _FAILURE_GRACE_S
        self._kill = self._loop.after(grace, self._kill_all)
        self.finish_if_stopped()

    def finish_if_stopped(self) -> None:
        """Ends the stop if no rank is left."""
        if self._parts.table.alive():
            return
        if self._kill is not None:
            self._kill.cancel()
        self._parts.processes.kill_store()
        self._output.drain()
        self._parts.restarts.mark_stopped()
        generation = self._parts.table.generation
        self._parts.table.membership = None
        codes = [rank.code or 0 for rank in self._parts.table.take_all().values()]
        self._parts.reports.send(RanksStopped("", generation, _decisive_code(codes)))

    def _kill_all(self) -> None:
        self._parts.processes.send_signal(self._parts.table.alive(), signal.SIGKILL, group=True)


def _decisive_code(codes: list[int]) -> int:
    """The exit code that decides what follows: one of Windlass's own, else the first that is not 0."""
    for wanted in (RankExitCode.FATAL, RankExitCode.PREEMPTED, RankExitCode.RETRY):
        if wanted in codes:
            return int(wanted)
    return next((code for code in codes if code), 0)
