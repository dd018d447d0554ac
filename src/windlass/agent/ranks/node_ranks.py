"""Starts and stops the ranks of this node; reports failures at once, and success when all ranks have exited.

The rendezvous and the agent use this module alone. Its parts share one `rank_table`: `rank_start` and `rank_ends` carry
out requests, `rank_processes` forks, `rank_ends` and `rank_messages` receive, `late_survivors` replaces ranks that are
stuck, `restart_report` measures restarts.
"""

from __future__ import annotations

import signal
import socket
import time
from pathlib import Path
from typing import Any, Callable

from windlass import wire
from windlass.agent import hang_detection, messages
from windlass.agent.event_loop import EventLoop
from windlass.agent.options import Options
from windlass.agent.parent_settings import ParentSettings
from windlass.agent.rank_events import RankEvent, RanksReady, RanksStopped
from windlass.agent.ranks.late_survivors import LateSurvivors
from windlass.agent.ranks.output import RankOutput
from windlass.agent.ranks.rank_ends import RankExitHandler, RankStop
from windlass.agent.ranks.rank_messages import RankMessages
from windlass.agent.ranks.rank_parts import RankParts
from windlass.agent.ranks.rank_processes import RankProcesses
from windlass.agent.ranks.rank_reports import RankReports
from windlass.agent.ranks.rank_start import RankStart
from windlass.agent.ranks.rank_table import RankTable
from windlass.agent.ranks.restart_report import RestartReport
from windlass.agent.ranks.status_file import RankStatusFile


class NodeRanks:
    """The ranks of this node, of one generation at a time.

    Calls `report` from the event loop, never from within a call of a method.
    """

    def __init__(
        self,
        loop: EventLoop,
        options: Options,
        output: RankOutput,
        folder: Path,
        settings: ParentSettings,
        report: Callable[[RankEvent], None],
    ) -> None:
        self._options, self._output, self.settings = options, output, settings
        self._table = table = RankTable()
        self._status_file = RankStatusFile(loop, settings.records)
        self._reports = RankReports(loop, table, report)
        self.restarts = RestartReport(settings)
        self.messages = RankMessages(loop, folder, table, self._status_file, self._on_hello, self._on_step)
        self.processes = RankProcesses(
            loop, options, output, table, self._status_file, self.messages.socket_path, self._on_fork_server_event
        )
        self._late_survivors = LateSurvivors(loop, table, self.processes, self._reports.fail)
        parts = RankParts(table, self.processes, self.messages, self.restarts, self._status_file, self._reports)
        self._start = RankStart(parts, self._late_survivors)
        self._stop = RankStop(loop, options, output, parts)
        self._exits = RankExitHandler(parts, self._start, self._stop, output, settings)

    @property
    def generation(self) -> int:
        """Generation of the ranks; 0 if there are none."""
        return self._table.generation

    @property
    def has_ranks(self) -> bool:
        """Whether a generation has ranks here, ended ones included."""
        return bool(self._table.ranks)

    # --- requests ------------------------------------------------------------------------------------

    def start(
        self, membership: wire.Membership, listener: socket.socket | None, *, keep: bool = False, reason: str = ""
    ) -> None:
        """Starts this node's ranks, and the store where `listener` is given.

        `keep`: running ranks go on with the new membership, because of `reason`, and only lost ones are started.
        """
        if keep:
            self._start.reform(membership, listener, reason)
        else:
            self._start.start(membership, listener, survivors=False)

    def stop(self, generation: int, reason: str, *, graceful: bool = False, signum: int = signal.SIGTERM) -> None:
        """Stops the ranks of this generation. Reports RanksStopped, at once if there are none.

        `graceful`: with the whole grace period, and the signal goes to the ranks' process groups, as with torchrun.
        """
        if generation != self.generation or not self.has_ranks:
            self._start.drop_waiting()
            self._reports.send(RanksStopped("", generation))
        elif not self._table.is_stopping:
            self._late_survivors.cancel()
            self._stop.begin(reason, signum, graceful=graceful)

    def send_signal(self, signum: int) -> None:
        """Sends a signal to every rank."""
        self.processes.send_signal(self._table.alive(), signum, group=False)

    def slowest_rank(self, now: float) -> hang_detection.SlowestRank:
        """The rank of this node that is furthest behind."""
        return self.messages.slowest_rank(self._options.limits, now, self._output.silent())

    def request_dumps(self) -> None:
        """Makes all ranks of a gang that hangs write their stacks, and torch's record of the last collectives."""
        self.messages.heartbeats.record_hang(time.monotonic(), self._options.limits)
        for rank in self._table.ranks.values():
            self.messages.send(rank.number, wire.Dump(str(self.processes.dump_dir)))
        if self._options.how != "exec":  # a foreign program may treat the signal in another way
            self.send_signal(signal.SIGUSR2)

    def read_stacks(self, rank: int) -> str:
        """Stacks that a rank has written; "" if it is not of this node."""
        local = {each.number: local for local, each in enumerate(self._table.ranks.values())}
        return self._output.stacks(self.generation, local.get(rank))

    def close(self) -> None:
        """Ends all processes."""
        self.processes.close()
        self._output.drain()
        self._output.close()
        self.messages.close()
        self._status_file.close()

    # --- events --------------------------------------------------------------------------------------

    def _on_fork_server_event(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "ready":
            self.processes.torch = event["torch"]
            if event["reason"]:
                effect = "ranks start without it" if event["torch"] else "rank 0 hosts the store"
                messages.print_message(f"{event['reason']}: {effect}")
            self._start.start_waiting()
        elif kind == "started" and event["id"] in self._table.ranks:
            rank = self._table.ranks[event["id"]]
            rank.pid = event["pid"]
            self._status_file.record_start(rank.number, rank.pid)
            self.messages.heartbeats.begin(rank.number, time.monotonic())
            self._report_if_running()
        elif kind == "exit":
            self._exits.on_exit(event["id"], event["code"], event["at"])
        elif kind == "gone":
            self._exits.on_fork_server_lost()

    def _report_if_running(self) -> None:
        """Reports the end of a restart once all ranks run."""
        if not self._late_survivors.is_waiting and all(each.pid for each in self._table.ranks.values()):
            self.restarts.report_started(self.generation)

    def _on_hello(self) -> None:
        ranks = self._table.ranks.values()
        if not self._table.late_survivors():
            self._late_survivors.cancel()
            self._report_if_running()
        if all(rank.ready for rank in ranks):
            self._reports.send(RanksReady("", self.generation))

    def _on_step(self, rank: int, at: float) -> None:
        """Prints one line when the last rank of a generation with survivors is in its first step."""
        restart = self.restarts.record_step(rank, at)
        if restart is not None:
            ranks = self._table.ranks.values()
            survivors = sum(each.survives for each in ranks)
            messages.print_message(
                messages.describe_survivors(self.generation, restart, survivors, len(ranks) - survivors)
            )
