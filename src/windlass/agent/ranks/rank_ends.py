"""Ends of this node's ranks: their exits by themselves, and stops by the agent.

A stop is a signal, SIGKILL after a grace period, and the event RanksStopped when no rank is left.
"""

from __future__ import annotations

import signal
import time

from windlass import wire
from windlass.agent import messages
from windlass.agent.error_file import read_reason
from windlass.agent.event_loop import DelayedCall, EventLoop
from windlass.agent.options import Options
from windlass.agent.parent_settings import ParentSettings
from windlass.agent.rank_events import RankFailed, RanksStopped, RanksSucceeded, classify_failure
from windlass.agent.ranks.output import RankOutput
from windlass.agent.ranks.rank_parts import RankParts
from windlass.agent.ranks.rank_start import RankStart
from windlass.agent.ranks.rank_table import NodeRank
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


class RankExitHandler:
    """The handler of exits: reports failures and the success of all ranks, continues a stop that is under way."""

    def __init__(
        self, parts: RankParts, start: RankStart, stop: RankStop, output: RankOutput, settings: ParentSettings
    ) -> None:
        self._parts, self._start, self._stop, self._output, self._settings = parts, start, stop, output, settings

    def on_exit(self, process_id: int, code: int, at: float) -> None:
        """Takes the end of a process. `code`: negative for a signal; `at`: its time on the monotonic clock."""
        if self._parts.processes.is_store(process_id):
            self._parts.processes.forget_store()
            if not self._parts.table.is_stopping:
                self._parts.reports.fail(wire.RankExitCode.RETRY, "the store has ended")
            return
        rank = self._parts.table.ranks.get(process_id)
        if rank is None:
            return
        if rank.replaced and code and not self._parts.table.is_stopping:
            self._start.replace(process_id)
            return
        rank.code = code
        self._parts.status_file.record_end(rank.number, code)
        self._parts.messages.forget_rank(rank.number)
        if self._parts.table.is_stopping:
            self._stop.finish_if_stopped()
        elif code != 0:
            self._on_rank_failure(rank, code, at)
        elif not self._parts.table.alive():
            self._output.drain()
            self._parts.reports.send(RanksSucceeded("", self._parts.table.generation))

    def on_fork_server_lost(self) -> None:
        """Treats all ranks as killed: they are killed with the fork server."""
        for rank in self._parts.table.ranks.values():
            rank.code = -signal.SIGKILL if rank.code is None else rank.code
        code = self._parts.processes.restart_fork_server()
        if self._parts.table.is_stopping:
            self._stop.finish_if_stopped()
        elif self._parts.table.membership is not None:
            self._parts.reports.fail(code, "the process that ranks are forked from is gone")

    def _on_rank_failure(self, rank: NodeRank, code: int, at: float) -> None:
        generation = self._parts.table.generation
        message = read_reason(rank.error_file) if code > 0 else ""
        reason = messages.describe_exit(rank.number, rank.pid, code, message)
        self._parts.restarts.begin(reason, at)
        self._settings.report(wire.RankFailure(generation, "failed", rank.number, code, reason, message))
        if code < 0 and rank.survives and not rank.ready:  # lost with the rank whose failure was counted already
            self._parts.reports.fail(wire.RankExitCode.RETRY, reason)
        else:
            charged_to = classify_failure(code, self._settings.budget)
            self._parts.reports.send(RankFailed("", generation, code, reason, charged_to))
