"""The supervisor's main loop and its gangs: starts ranks, reports ends, kills after a grace period, ends when unused.

A process belongs to a gang because it is a rank of it, descends from one, or was left behind by one (`orphans`).

Messages from the controller, by their "do":
- hello   linger (seconds without a controller before it ends, null: for ever), offset (ms from the boot clock to the
          backend's time). Answered by "hello" with the supervisor's pid and start and the existing gangs, and by
          every report that is not acknowledged yet.
- spawn   job, generation, logs (folder), cwd, env, owner ([pid, ticks] or null: a client that waits for the job, and
          becomes the controller if there is none; with both gone the gang ends), ranks: [{argv, env}], of an agent
          also agent: {node, first, ranks}, repeated (a controller that has died may have sent this before; absent: no).
          Answered by "started" (pids: [[pid, ticks]]), or by "gone" if an earlier supervisor has started it.
- stop    job, generation, grace (ms). Answered by "gone", once.
- ack     seq: all reports up to this one are durable.
- end     kill everything, and end.
Reports, by their "report": started, exit (rank and code or signal; error: [errno, step] if it could not start), gone,
agent (rank, message: of the agent in this rank's place, see `windlass.wire`), output lost (rank, stream, error;
once per rank), stuck (pids that SIGKILL does not end).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from . import proc, process_cleanup, spawn
from .controller_connection import ControllerConnection
from .controller_timeout import ControllerTimeout
from .event_loop import Poller
from .log_files import LogLimits
from .orphans import Key, Orphans
from .process_cleanup import kill
from .process_output import LogSettings, ProcessOutput
from .spawn import AgentRanks, Program

Message: TypeAlias = dict[str, Any]
Report: TypeAlias = dict[str, Any]

_AGENT_EXTRA_GRACE_S = 2.0
"""Additional seconds for agents: when the grace period of their ranks is over they kill them and report their ends."""
_KILL_INTERVAL_S = 0.02
"""Seconds between two rounds of SIGKILL: a round can miss a process that is just being forked."""
_STUCK_AFTER_S = 10.0
"""Seconds after the first SIGKILL at which a gang that still lives is reported."""


class RankProcess:
    """A process started here, and its output. `pid` 0: it has not started, or has ended."""

    def __init__(self, number: int, output: ProcessOutput) -> None:
        self.number = number
        self.output = output
        self.pid = self.session = 0
        self.started = 0
        """Start in clock ticks since boot."""


class SupervisedGang:
    """All ranks of one generation."""

    def __init__(self, key: Key, send: Callable[[Report], None], owner: list[int] | None = None) -> None:
        self.key = key
        self._send = send
        self.owner = owner
        """Pid and start of the client that waits for the gang, if any."""
        self.ranks: list[RankProcess] = []
        self.first_started = 0
        """Start of the oldest rank in clock ticks."""
        self.kill_at: float | None = None
        """Monotonic time of the (next) SIGKILL while the gang is being stopped; else None."""
        self.stuck_at = 0.0
        self.gone = False
        self.signalled: set[int] = set()
        """Pids of processes that were sent SIGTERM."""

    def alive(self) -> list[RankProcess]:
        """Returns the ranks that have not ended."""
        return [rank for rank in self.ranks if rank.pid]

    def report(self, kind: str, /, **more: object) -> None:
        """Sends a report about this gang."""
        self._send({"report": kind, "job": self.key[0], "generation": self.key[1], **more})


class SupervisedGangs:
    """Every gang that was started and whose end has not been acknowledged."""

    def __init__(
        self, poll: Poller, report: Callable[[Report], None], now: Callable[[], int], limits: LogLimits
    ) -> None:
        self.by_key: dict[Key, SupervisedGang] = {}
        self._poll = poll
        self._send = report
        self._logs = LogSettings(limits, now)
        self._spawner = spawn.Spawner()
        self._ranks: dict[int, tuple[SupervisedGang, RankProcess]] = {}
        self._orphans = Orphans(self.by_key)
        self._ending: dict[Key, SupervisedGang] = {}
        self._scan = proc.ProcessScan(_KILL_INTERVAL_S / 2)

    # --- start ---------------------------------------------------------------------------------------

    def start(
        self, key: Key, logs: str, programs: Iterable[spawn.Program], owner: list[int] | None, *, repeated: bool = False
    ) -> None:
        """Starts every rank. Does nothing for a gang that exists already.

        `repeated`: another controller may have requested this before. What an earlier supervisor has started, which
        the folder `logs` shows, is gone and is not started again.
        """
        if key in self.by_key:
            return
        if repeated and os.path.isdir(logs):
            self.stop(key, 0)
            return
        with contextlib.suppress(OSError):  # a full disk
            os.makedirs(logs, mode=0o700, exist_ok=True)
        gang = self.by_key[key] = SupervisedGang(key, self._send, owner)
        unstarted: list[tuple[int, int]] = []
        for number, program in enumerate(programs):
            rank = RankProcess(number, ProcessOutput(self._poll, number, logs, self._logs, gang.report))
            gang.ranks.append(rank)
            write_ends: list[int] = []
            try:
                opened = rank.output.open(program, write_ends)
                rank.pid = rank.session = self._spawner.start(opened, write_ends)
            except OSError as error:
                unstarted.append((number, error.errno or 1))
                continue
            finally:
                for descriptor in write_ends:
                    os.close(descriptor)
            seen = proc.stat(rank.pid)
            rank.started = seen.started if seen else 0
            self._ranks[rank.pid] = (gang, rank)
            self._orphans.sessions[rank.pid] = key
        gang.first_started = min((rank.started for rank in gang.ranks if rank.pid), default=0)
        gang.report("started", pids=[[rank.pid, rank.started] for rank in gang.ranks])
        for number, errno in unstarted:
            gang.report("exit", rank=number, code=126, error=[errno, "fork"])

    def has_waiting_client(self) -> bool:
        """Tells whether a living client waits for a gang or for the news of its end."""
        return any(gang.owner and proc.is_alive(*gang.owner) for gang in self.by_key.values())

    def stop_abandoned(self) -> None:
        """Kills the gangs whose client ended while no controller was connected to cancel them, without grace."""
        for key, gang in list(self.by_key.items()):
            if gang.owner and gang.kill_at is None and not proc.is_alive(*gang.owner):
                self.stop(key, 0)

    # --- end -----------------------------------------------------------------------------------------

    def reap(self, _mask: int = 0) -> None:
        """Records every child that has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            self._orphans.forget(pid)
            if pid in self._ranks:
                gang, rank = self._ranks.pop(pid)
                gang.report("exit", rank=rank.number, **self._finish(gang, rank, os.waitstatus_to_exitcode(status)))
        for gang in list(self._ending.values()):
            self._conclude(gang)

    def _finish(self, gang: SupervisedGang, rank: RankProcess, code: int) -> dict[str, object]:
        """Stores the last output of a rank that has ended; returns how it ended, as its report says it."""
        failure = self._spawner.failure(rank.pid)
        rank.pid = 0
        for each in gang.ranks:  # messages of agents come before this end
            if each.output.messages is not None:
                each.output.messages.read()
        rank.output.drain()
        if failure:
            return {"code": code, "error": failure}
        return {"signal": -code} if code < 0 else {"code": code}

    # --- stop ----------------------------------------------------------------------------------------

    def stop(self, key: Key, grace: float) -> None:
        """Sends SIGTERM now, SIGKILL after `grace` seconds, and reports "gone" when nothing is left."""
        gang = self.by_key.get(key)
        if gang is None:
            gang = self.by_key[key] = SupervisedGang(key, self._send)
        if gang.gone:
            return
        if grace and any(rank.output.messages is not None for rank in gang.ranks):
            grace += _AGENT_EXTRA_GRACE_S
        kill_at = time.monotonic() + grace
        gang.kill_at = kill_at if gang.kill_at is None else min(gang.kill_at, kill_at)
        gang.stuck_at = gang.kill_at + _STUCK_AFTER_S
        self._ending[key] = gang
        alive = gang.alive()
        for rank in alive:
            _signal_group(rank.pid, signal.SIGTERM)
        # an agent signals its ranks itself
        if signalled := [rank.pid for rank in alive if rank.output.messages is None]:
            self._terminate(gang, signalled)
        self._conclude(gang)

    def tick(self, now: float) -> None:
        """Sends SIGKILL to gangs whose grace period is over."""
        due = [gang for gang in self._ending.values() if gang.kill_at is not None and gang.kill_at <= now]
        for gang in due:
            gang.kill_at = now + _KILL_INTERVAL_S
            self._kill(gang, now)
        if due:
            self.reap()

    def next_tick(self) -> float | None:
        """Returns the time of the next call of `tick`."""
        return min((gang.kill_at for gang in self._ending.values() if gang.kill_at is not None), default=None)

    def _conclude(self, gang: SupervisedGang) -> None:
        """Reports a gang of which nothing is left as gone; sends SIGTERM to processes that were left behind since."""
        left = self._left_behind(gang)
        if left or gang.alive():
            if unsignalled := [pid for pid in left if pid not in gang.signalled]:
                kill(unsignalled, signal.SIGTERM)
                self._terminate(gang, unsignalled)
            return
        gang.gone = True
        del self._ending[gang.key]
        for rank in gang.ranks:
            rank.output.close()
            self._orphans.sessions.pop(rank.session, None)
        gang.report("gone")

    def _terminate(self, gang: SupervisedGang, roots: list[int]) -> None:
        """Sends SIGTERM to descendants of `roots` that are not in a process group that was signalled as a whole."""
        gang.signalled.update(roots)
        groups = {rank.pid for rank in gang.alive()}
        processes = self._scan.processes()
        below = [pid for pid in proc.descendants(roots, processes) if processes[pid].group not in groups]
        kill([pid for pid in below if pid not in gang.signalled], signal.SIGTERM)
        gang.signalled.update(below)

    def _kill(self, gang: SupervisedGang, now: float) -> None:
        roots = [rank.pid for rank in gang.alive()] + self._left_behind(gang)
        for rank in gang.alive():
            _signal_group(rank.pid, signal.SIGKILL)
        targets = roots + proc.descendants(roots, self._scan.processes())
        kill(targets)
        if now > gang.stuck_at:
            gang.stuck_at = float("inf")
            gang.report("stuck", pids=targets)

    def _left_behind(self, gang: SupervisedGang) -> list[int]:
        return self._orphans.find(gang.key, gang.first_started, self._ranks.keys())


def _signal_group(pid: int, number: int) -> None:
    """Signals the rank's group, or the rank alone if it has not made its group yet."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        kill([pid], number)
    except PermissionError:
        pass


class Supervisor:
    """Main loop of the process. `lifeline`: reading end of a pipe that ends when the watchdog does."""

    def __init__(self, listener: socket.socket, lifeline: int, linger: float, limits: LogLimits) -> None:
        self._poll = Poller()
        self._connection = ControllerConnection(self._poll, listener, self._receive)
        self._gangs = SupervisedGangs(self._poll, self._connection.report, self._now, limits)
        self._timeout = ControllerTimeout(linger, time.monotonic())
        self._controlled = False
        self._offset = 0
        self._ended = False
        self._poll.watch_children(self._gangs.reap)
        self._poll.watch(lifeline, self._end)

    def run(self) -> None:
        """Runs until asked to end, or without a controller for too long. No process started here lives afterwards."""
        while not self._ended:
            for call, mask in self._poll.wait(self._next()):
                call(mask)
            self._gangs.tick(time.monotonic())
            self._connection.flush()
            self._check_controller()
        self._connection.stop_listening()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        process_cleanup.kill_descendants()

    def _next(self) -> float | None:
        without_controller = None if self._connection.connected else self._timeout.check_at
        times = [at for at in (without_controller, self._gangs.next_tick()) if at is not None and at != float("inf")]
        return min(times, default=None)

    def _check_controller(self) -> None:
        now = time.monotonic()
        if self._controlled and not self._connection.connected:
            self._timeout.begin(now)
        self._controlled = self._connection.connected
        if not self._controlled and now >= self._timeout.check_at:
            self._ended = self._timeout.has_expired(now, has_client=self._gangs.has_waiting_client())
            if not self._ended:
                self._gangs.stop_abandoned()

    def _end(self, _mask: int) -> None:
        self._ended = True

    # --- messages of the controller ----------------------------------------------------------------------

    def _receive(self, mask: int) -> None:
        for message in self._connection.read(mask):
            match message["do"]:
                case "hello":
                    self._hello(message)
                case "spawn":
                    key = (message["job"], message["generation"])
                    programs, repeated = _programs(message), message.get("repeated", False)
                    self._gangs.start(key, message["logs"], programs, message["owner"], repeated=repeated)
                case "stop":
                    self._gangs.stop((message["job"], message["generation"]), message["grace"] / 1000)
                case "ack":
                    for report in self._connection.forget_acknowledged(message["seq"]):
                        if report["report"] == "gone":
                            self._gangs.by_key.pop((report["job"], report["generation"]), None)
                case "end":
                    self._ended = True

    def _hello(self, message: Message) -> None:
        linger = float("inf") if message["linger"] is None else message["linger"]
        self._timeout.extend(linger)
        self._offset = message["offset"]
        own = proc.stat(os.getpid())
        self._connection.greet(
            {"supervisor": f"{os.getpid()}:{own.started if own else 0}", "gangs": list(self._gangs.by_key)}
        )

    def _now(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000 + self._offset


def _programs(message: Message) -> list[Program]:
    common = {**message["env"], "WINDLASS_GANG": f"{message['job']}/{message['generation']}"}
    return [
        Program(
            rank["argv"],
            {**common, **rank["env"]},
            message["cwd"],
            AgentRanks(**rank["agent"]) if "agent" in rank else None,
        )
        for rank in message["ranks"]
    ]
