"""Handles exits of ranks, store and fork server."""

from __future__ import annotations

import signal

from windlass import wire
from windlass.agent import messages
from windlass.agent.error_file import read_reason
from windlass.agent.parent_settings import ParentSettings
from windlass.agent.rank_events import RankFailed, RanksSucceeded, classify_failure
from windlass.agent.ranks.output import RankOutput
from windlass.agent.ranks.rank_parts import RankParts
from windlass.agent.ranks.rank_start import RankStart
from windlass.agent.ranks.rank_stop import RankStop
from windlass.agent.ranks.rank_table import NodeRank


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
