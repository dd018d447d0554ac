"""The ranks of this node: starts and stops them on request, and reports each end at once."""

from __future__ import annotations

import itertools
import math
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any, Callable

from windlass import wire
from windlass.agent import hang_detection, messages
from windlass.agent.error_file import read_reason
from windlass.agent.event_loop import DelayedCall, EventLoop
from windlass.agent.fork_server.client import ForkServerClient
from windlass.agent.launcher_settings import LauncherSettings
from windlass.agent.options import Options
from windlass.agent.rank_events import (
    FINAL,
    UNCOUNTED,
    RankEvent,
    RankFailed,
    RanksReady,
    RanksStopped,
    RanksSucceeded,
    failure_limit,
)
from windlass.agent.ranks import environment
from windlass.agent.ranks.heartbeats import HeartbeatReceiver
from windlass.agent.ranks.output import RankOutput
from windlass.agent.ranks.status_file import RankStatusFile

_FAILURE_GRACE_S = 1.0
"""Time from SIGTERM to SIGKILL for ranks whose gang is broken: they can do nothing that takes longer."""
_MAX_LOST_FORK_SERVERS = 3
"""Number of unexpected ends of fork servers after which the run ends."""


class _Rank:
    def __init__(self, number: int, error_file: str) -> None:
        self.number = number
        self.error_file = error_file
        self.pid = 0
        self.code: int | None = None
        self.ready = False
        """The rank can take a new membership, so it has entered the current one."""
        self.survives = False
        """The rank is older than this generation and is to go on with it."""
        self.replaced = False
        """The rank was killed because it did not enter the current membership."""


class NodeRanks:
    """Ranks of one generation at a time. Calls `report` from the loop, never from within a call of a method."""

    def __init__(
        self,
        loop: EventLoop,
        options: Options,
        output: RankOutput,
        folder: Path,
        settings: LauncherSettings,
        report: Callable[[RankEvent], None],
    ) -> None:
        self._loop, self._options, self._output, self._report = loop, options, output, report
        self.settings = settings
        self._status_file = RankStatusFile(loop, settings.records)
        self.memory = ""
        """Folder for in-memory checkpoint replicas; "" where there is none."""
        self._ids = itertools.count(1)
        self._ranks: dict[int, _Rank] = {}
        """By the number of the process at the fork server, in the order of rank numbers."""
        self._store = 0
        self._waiting: tuple[wire.Membership, socket.socket | None, bool] | None = None
        """Arguments of `start`, until the fork server is ready."""
        self._membership: wire.Membership | None = None
        self._stopping = False
        self._kill: DelayedCall | None = None
        self._reforming: DelayedCall | None = None
        self._torch: str | None = None
        self._lost_fork_servers = 0
        self._recovery: messages.RestartTimes | None = None
        self._awaited: dict[int, messages.RestartTimes] = {}
        """Ranks of a generation with survivors, until their first step."""
        self.heartbeats = hang_detection.HeartbeatTracker()
        self.recovered: wire.RankRecovery | None = None
        """The last restart after which all ranks ran."""
        self.telemetry: wire.Telemetry | None = None
        """Newest measurements of the first rank of this node that sends any."""
        self._receiver = HeartbeatReceiver(loop, folder, self._receive)
        self._fork_server = self._start_fork_server()

    @property
    def generation(self) -> int:
        """Generation of the ranks; 0 if there are none."""
        return self._membership.generation if self._membership else 0

    @property
    def has_ranks(self) -> bool:
        """Whether a generation has ranks here, ended ones included."""
        return bool(self._ranks)

    def count(self, option: str) -> int:
        """Number of ranks of this node, from --nproc-per-node. Raises ValueError."""
        found = option if option.isdecimal() else self._count(option)
        if not found.isdecimal() or int(found) < 1:
            raise ValueError(f"--nproc-per-node {option}: {found if not found.isdecimal() else 'at least 1'}")
        return int(found)

    # --- requests ------------------------------------------------------------------------------------

    def start(self, membership: wire.Membership, listener: socket.socket | None, *, survivors: bool = False) -> None:
        """Starts this node's ranks, and the store where `listener` is given. `survivors`: other nodes have some."""
        self._membership, self._stopping = membership, False
        self._waiting = (membership, listener, survivors)
        if self._torch is not None:
            self._start_waiting()

    def reform(self, membership: wire.Membership, listener: socket.socket | None, why: str) -> None:
        """Gives running ranks a new membership, and starts those that are lost anew."""
        self._cancel_reform_timer()
        if not self._ranks:
            self.start(membership, listener, survivors=True)
            return
        self._receiver.read_rings()
        now = time.monotonic()
        past = (self._recovery or messages.RestartTimes(why, now, now, 0.0, 0.0))._replace(stopped=now)
        self._recovery, self._membership, self.telemetry = past, membership, None
        self.heartbeats.forget()
        self._kill_store()
        self._host_store(listener)
        before, self._ranks = self._ranks, {}
        survivors = [rank for rank in before.values() if rank.code is None and not rank.replaced]
        timeout = hang_detection.reform_timeout(self.heartbeats) if all(rank.ready for rank in survivors) else 0.0
        positions = list(zip(environment.rank_positions(membership), before.items()))
        self._status_file.go_on(
            membership.generation,
            {
                rank.number: environment.generation_variables(position, membership)
                for position, (_, rank) in positions
                if rank in survivors
            },
        )
        for position, (number, rank) in positions:
            if rank in survivors:
                self._receiver.send([rank.number], membership._replace(rank=position.rank))
                rank.number, rank.ready, rank.survives = position.rank, False, True
                self._ranks[number] = rank
            else:
                self._start_rank(membership, position, survivors=bool(survivors) or len(membership.members) > 1)
        self._receiver.forget()
        self._awaited = {rank.number: past for rank in self._ranks.values()}
        if survivors:
            self._reforming = self._loop.after(timeout, lambda: self._replace_late_ranks(timeout))

    def halt(self, generation: int, why: str, *, planned: bool = False, number: int = signal.SIGTERM) -> None:
        """Stops the ranks of this generation. Reports RanksStopped, at once if there are none.

        `planned`: with the whole grace period, and the signal goes to the ranks' process groups, as with torchrun.
        """
        if generation != self.generation or not self._ranks:
            self._drop_waiting()
            self._report_soon(RanksStopped("", generation))
            return
        if not self._stopping:
            self._stopping = True
            self._cancel_reform_timer()
            now = time.monotonic()
            if self._recovery is None or self._recovery.stopped:
                self._recovery = messages.RestartTimes(why, now, now, 0.0, 0.0)
            self._fork_server.signal(self._alive(), number, group=planned)
            grace = self._options.shutdown_timeout if planned else _FAILURE_GRACE_S
            self._kill = self._loop.after(grace, self._kill_all)
            self._finish_if_stopped()

    def signal(self, number: int) -> None:
        """Passes a signal on to every rank."""
        self._fork_server.signal(self._alive(), number, group=False)

    def slowest_rank(self, now: float) -> hang_detection.SlowestRank:
        """The rank of this node that is furthest behind."""
        if self._stopping or not self._alive():
            return hang_detection.SlowestRank(limit=math.inf)
        self._receiver.read_rings()
        return hang_detection.find_slowest_rank(self.heartbeats, self._options.limits, now, self._output.silent())

    def request_dumps(self) -> None:
        """Makes all ranks write their stacks, and torch's record of the last collectives."""
        self._receiver.send([each.number for each in self._ranks.values()], wire.Dump(str(self._dumps())))
        if self._options.how != "exec":  # a foreign program may treat the signal in another way
            self._fork_server.signal(self._alive(), signal.SIGUSR2, group=False)

    def read_stacks(self, rank: int) -> str:
        """Stacks that a rank has written; "" if it is not of this node."""
        local = {each.number: local for local, each in enumerate(self._ranks.values())}
        return self._output.stacks(self.generation, local.get(rank))

    def close(self) -> None:
        """Ends all processes."""
        self._fork_server.close()
        self._output.drain()
        self._receiver.close()
        self._status_file.close()

    # --- starting ------------------------------------------------------------------------------------

    def _drop_waiting(self) -> None:
        if self._waiting is not None and self._waiting[1] is not None:
            self._waiting[1].close()
        self._waiting = self._membership = None

    def _start_fork_server(self) -> ForkServerClient:
        variables = dict(os.environ)
        if "OMP_NUM_THREADS" not in variables and self._options.procs != "1":
            variables["OMP_NUM_THREADS"] = "1"
        python = os.environ.get("PYTHON_EXEC") or os.sys.executable  # type: ignore[attr-defined]
        return ForkServerClient(self._loop, python, variables, self._on_fork_server_event)

    def _count(self, option: str) -> str:
        if option == "cpu":
            return str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
        return self._fork_server.count(next(self._ids), option)

    def _start_waiting(self) -> None:
        assert self._waiting is not None  # noqa: S101 - callers have checked it
        (membership, listener, survivors), self._waiting = self._waiting, None
        self._ranks, self._store, self._awaited, self.telemetry = {}, 0, {}, None
        self._status_file.begin(membership.generation)
        self.heartbeats.forget()
        self._receiver.forget()
        self._host_store(listener)
        for position in environment.rank_positions(membership):
            self._start_rank(membership, position, survivors=survivors)

    def _host_store(self, listener: socket.socket | None) -> None:
        if listener is not None:
            if self._torch:
                self._store = next(self._ids)
                self._fork_server.store(self._store, listener)
            listener.close()  # without torch rank 0 listens at this port itself

    def _start_rank(self, membership: wire.Membership, position: environment.RankPosition, *, survivors: bool) -> None:
        try:
            self._fork_rank(membership, position, survivors=survivors)
        except (OSError, ValueError) as error:
            self._fail(wire.RankExitCode.FATAL, f"cannot start ranks: {error}")

    def _fork_rank(self, membership: wire.Membership, position: environment.RankPosition, *, survivors: bool) -> None:
        files = self._output.open(position.local, position.rank, membership.generation)
        settings = environment.RankSettings(
            run_id=self._options.run_id,
            role=self._options.role,
            max_restarts=self._options.max_restarts,
            agent_store=bool(self._torch),
            socket=self._receiver.path,
            dumps=str(self._dumps()),
            virtual_local_rank=self._options.virtual_local_rank,
            memory=self.memory,
            survivors=survivors,
        )
        variables = environment.rank_variables(position, membership, settings, files.error_file, os.environ)
        number = next(self._ids)
        self._ranks[number] = _Rank(position.rank, files.error_file)
        self._status_file.start(position.rank, variables)
        words = [word.replace("${local_rank}", str(position.local)) for word in self._options.argv]
        self._fork_server.run(number, words, self._options.how, variables, files[:3])
        files.close()

    def _dumps(self) -> Path:
        return self._output.attempt(self.generation)

    # --- events of the fork server -----------------------------------------------------------------------

    def _on_fork_server_event(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "ready":
            self._on_ready(event)
        elif kind == "started" and event["id"] in self._ranks:
            self._on_started(self._ranks[event["id"]], event["pid"])
        elif kind == "exit":
            self._on_exit(event["id"], event["code"], event["at"])
        elif kind == "gone":
            self._on_fork_server_lost()

    def _on_ready(self, event: dict[str, Any]) -> None:
        self._torch = event["torch"]
        if event["why"]:
            effect = "ranks start without it" if self._torch else "rank 0 hosts the store"
            messages.print_message(f"{event['why']}: {effect}")
        if self._waiting is not None:
            self._start_waiting()

    def _on_started(self, rank: _Rank, pid: int) -> None:
        rank.pid = pid
        self._status_file.started(rank.number, pid)
        self._report_recovery()

    def _report_recovery(self) -> None:
        """Reports the end of a restart once all ranks run."""
        past = self._recovery
        is_up = self._reforming is None and all(each.pid for each in self._ranks.values())
        if past is not None and past.stopped and is_up:
            past = past._replace(started=time.monotonic())
            messages.print_message(messages.describe_recovery(self.generation, past))
            self.recovered = wire.RankRecovery(self.generation, past.started - past.happened, past.why)
            self.settings.report(self.recovered)
            self._recovery = None

    def _on_exit(self, number: int, code: int, at: float) -> None:
        if number == self._store:
            self._store = 0
            if not self._stopping:
                self._fail(wire.RankExitCode.RETRY, "the store has ended")
        elif (rank := self._ranks.get(number)) is not None:
            if rank.replaced and code and not self._stopping:
                self._start_replacement(number)
            else:
                self._on_rank_exit(rank, code, at)

    def _on_rank_exit(self, rank: _Rank, code: int, at: float) -> None:
        rank.code = code
        self._status_file.ended(rank.number, code)
        self._receiver.read_rings()  # its last heartbeats, before it is forgotten
        self.heartbeats.forget(rank.number)
        if self._stopping:
            self._finish_if_stopped()
        elif code != 0:
            reason = read_reason(rank.error_file) if code > 0 else ""
            why = messages.describe_exit(rank.number, rank.pid, code, reason)
            if self._recovery is None or self._recovery.stopped:
                self._recovery = messages.RestartTimes(why, at, time.monotonic(), 0.0, 0.0)
            self.settings.report(wire.RankFailure(self.generation, "failed", rank.number, code, why, reason))
            self._report_failed_rank(rank, code, why)
        elif not self._alive():
            self._output.drain()
            self._report_soon(RanksSucceeded("", self.generation))

    def _report_failed_rank(self, rank: _Rank, code: int, why: str) -> None:
        if code < 0 and rank.survives and not rank.ready:  # lost with the rank whose failure was counted already
            self._fail(wire.RankExitCode.RETRY, why)
        else:
            limit = failure_limit(code, self.settings.budget)
            self._report_soon(RankFailed("", self.generation, code, why, limit))

    def _fail(self, code: wire.RankExitCode, why: str) -> None:
        """Reports a failure that is not a rank's own end."""
        limit = FINAL if code is wire.RankExitCode.FATAL else UNCOUNTED
        self._report_soon(RankFailed("", self.generation, int(code), why, limit))

    def _on_fork_server_lost(self) -> None:
        """Treats all ranks as killed: they die with the fork server."""
        self._lost_fork_servers += 1
        self._torch = None
        code = wire.RankExitCode.RETRY if self._lost_fork_servers < _MAX_LOST_FORK_SERVERS else wire.RankExitCode.FATAL
        for rank in self._ranks.values():
            rank.code = -signal.SIGKILL if rank.code is None else rank.code
        self._store = 0
        if self._stopping:
            self._finish_if_stopped()
        elif self._membership is not None:
            self._fail(code, "the process that ranks are forked from is gone")
        if code == wire.RankExitCode.RETRY:
            self._fork_server = self._start_fork_server()

    # --- messages of ranks -----------------------------------------------------------------------------

    def _receive(self, message: wire.Message, at: float) -> None:
        if getattr(message, "generation", 0) != self.generation or self._stopping:
            return
        self._status_file.record(message, at)
        if isinstance(message, wire.Heartbeat):
            self.heartbeats.record(message, at)
            if message.phase not in wire.OPEN_PHASES:
                self._on_step(message.rank, at)
        elif isinstance(message, wire.Goodbye):
            self.heartbeats.forget(message.rank)
            for rank in self._ranks.values():
                rank.ready = rank.ready and rank.number != message.rank
        elif isinstance(message, wire.Hello):
            self._on_hello(message)
        elif isinstance(message, wire.Telemetry) and (self.telemetry is None or message.rank <= self.telemetry.rank):
            self.telemetry = message

    def _on_hello(self, hello: wire.Hello) -> None:
        for rank in self._ranks.values():
            if rank.number == hello.rank and not rank.replaced:
                rank.ready = hello.reforms
        if all(rank.ready for rank in self._ranks.values() if rank.survives):
            self._cancel_reform_timer()
            self._report_recovery()
        if all(rank.ready for rank in self._ranks.values()):
            self._report_soon(RanksReady("", self.generation))

    def _on_step(self, rank: int, at: float) -> None:
        """Prints one line when the last rank of a generation with survivors is in its first step."""
        past = self._awaited.pop(rank, None)
        if past is None:
            return
        past = past._replace(started=max(past.started, at))
        self._awaited = dict.fromkeys(self._awaited, past)
        if not self._awaited:
            survivors = sum(each.survives for each in self._ranks.values())
            fresh = len(self._ranks) - survivors
            messages.print_message(messages.describe_survivors(self.generation, past, survivors, fresh))

    # --- survivors -------------------------------------------------------------------------------------

    def _cancel_reform_timer(self) -> None:
        if self._reforming is not None:
            self._reforming.cancel()
            self._reforming = None

    def _replace_late_ranks(self, waited: float) -> None:
        """Kills survivors that have not entered the membership in time, if other ranks may hold the state."""
        assert self._membership is not None  # noqa: S101 - it is the one that they have not entered
        self._reforming = None
        late = {number: rank for number, rank in self._ranks.items() if rank.survives and not rank.ready}
        why = messages.describe_late_ranks([rank.number for rank in late.values()], self.generation, waited)
        here = any(rank.survives and rank.ready for rank in self._ranks.values())
        if not waited or not (here or len(self._membership.members) > 1):
            self._fail(wire.RankExitCode.RETRY, why)
            return
        messages.print_message(f"{why}: started anew")
        for rank in late.values():
            rank.replaced = True
        self._fork_server.signal(list(late), signal.SIGKILL, group=True)

    def _start_replacement(self, number: int) -> None:
        """Starts a new rank in the position of a late survivor that was killed, in the same generation."""
        assert self._membership is not None  # noqa: S101 - as above
        rank = self._ranks.pop(number)
        self._receiver.read_rings()
        self.heartbeats.forget(rank.number)
        positions = environment.rank_positions(self._membership)
        position = next(each for each in positions if each.rank == rank.number)
        self._start_rank(self._membership, position, survivors=True)
        self._ranks = dict(sorted(self._ranks.items(), key=lambda each: each[1].number))  # `reform` needs this order

    # --- stopping --------------------------------------------------------------------------------------

    def _alive(self) -> list[int]:
        return [number for number, rank in self._ranks.items() if rank.code is None]

    def _kill_all(self) -> None:
        self._fork_server.signal(self._alive(), signal.SIGKILL, group=True)

    def _kill_store(self) -> None:
        if self._store:
            self._fork_server.signal([self._store], signal.SIGKILL, group=False)
            self._store = 0

    def _finish_if_stopped(self) -> None:
        if self._alive():
            return
        if self._kill is not None:
            self._kill.cancel()
        self._kill_store()
        self._output.drain()
        if self._recovery is not None:
            self._recovery = self._recovery._replace(stopped=time.monotonic())
        codes = [rank.code or 0 for rank in self._ranks.values()]
        generation, self._membership, self._ranks = self.generation, None, {}
        self._report_soon(RanksStopped("", generation, _decisive(codes)))

    def _report_soon(self, event: RankEvent) -> None:
        self._loop.after(0, lambda: self._report(event))


def _decisive(codes: list[int]) -> int:
    """The exit code that decides what follows: one of Windlass's own, else the first that is not 0."""
    for wanted in (wire.RankExitCode.FATAL, wire.RankExitCode.PREEMPTED, wire.RankExitCode.RETRY):
        if wanted in codes:
            return int(wanted)
    return next((code for code in codes if code), 0)
