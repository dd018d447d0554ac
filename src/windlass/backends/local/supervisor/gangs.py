"""The gangs of the supervisor: their ranks, the processes that those left behind, and their termination.

A process belongs to a gang because it is a rank of it, descends from one, or was a descendant and was reparented to
the supervisor, a subreaper, when its own parent ended. The last kind is identified by WINDLASS_GANG in its
environment, else by its session; else it has no known gang and ends with the first gang that ends and is older.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from . import proc, spawn
from .agent_messages import AgentMessages
from .event_loop import Poll
from .log_files import Limits, LogWriter, Stream
from .process_cleanup import kill

Key: TypeAlias = tuple[str, int]
"""Job id and generation."""
Report: TypeAlias = dict[str, Any]

_AGENT_EXTRA_GRACE_S = 2.0
"""Additional seconds for agents: when the grace period of their ranks is over they kill them and report their ends."""
_KILL_INTERVAL_S = 0.02
"""Seconds between two rounds of SIGKILL: a round can miss a process that is just being forked."""
_STUCK_AFTER_S = 10.0
"""Seconds after the first SIGKILL at which a gang that still lives is reported."""
_CHUNK = 65536
"""Bytes read of one stream before the others are read."""
_PIPE_LIMIT = 1 << 20
"""Upper bound of a pipe's content: a rank's last output is read completely, but not the endless output of a child."""


class RankProcess:
    """A process started here, and its two streams. `pid` 0: it has ended."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid = self.session = 0
        self.started = 0
        self.streams: dict[str, Stream] = {}
        """Streams by the name of their files."""
        self.messages: AgentMessages | None = None
        """Messages about its own ranks, if it is an agent."""
        self.loss_reported = False
        """Whether the loss of its output was reported; it is reported once."""


class SupervisedGang:
    """All ranks of one generation."""

    def __init__(self, key: Key, owner: list[int] | None = None) -> None:
        self.key = key
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


class SupervisedGangs:
    """Every gang that was started and whose end has not been acknowledged."""

    def __init__(self, poll: Poll, report: Callable[[Report], None], now: Callable[[], int], limits: Limits) -> None:
        self.by_key: dict[Key, SupervisedGang] = {}
        self._poll = poll
        self._send_report = report
        self._now = now
        self._limits = limits
        self._spawner = spawn.Spawner()
        self._ranks: dict[int, tuple[SupervisedGang, RankProcess]] = {}
        self._sessions: dict[int, Key] = {}
        self._orphans: dict[int, Key | None] = {}
        self._ending: dict[Key, SupervisedGang] = {}
        self._stats: dict[int, proc.Stat] = {}
        self._stats_taken = 0.0

    # --- start ---------------------------------------------------------------------------------------

    def start(self, key: Key, logs: str, programs: Iterable[spawn.Program], owner: list[int] | None) -> None:
        """Starts every rank. Does nothing for a gang that exists already."""
        if key in self.by_key:
            return
        gang = self.by_key[key] = SupervisedGang(key, owner)
        unstarted: list[tuple[int, int]] = []
        for number, program in enumerate(programs):
            errno = self._start_rank(gang, logs, program)
            if errno:
                unstarted.append((number, errno))
        gang.first_started = min((rank.started for rank in gang.ranks if rank.pid), default=0)
        self._report(gang, "started", pids=[[rank.pid, rank.started] for rank in gang.ranks])
        for number, errno in unstarted:
            self._report(gang, "exit", rank=number, code=126, error=[errno, "fork"])

    def _start_rank(self, gang: SupervisedGang, logs: str, program: spawn.Program) -> int:
        """Starts one rank. Returns an errno, 0 on success."""
        rank = RankProcess(len(gang.ranks))
        gang.ranks.append(rank)
        write_ends: list[int] = []
        try:
            name = program.agent.node if program.agent else str(rank.number)
            write_ends += self._open_streams(gang, rank, logs, name)
            if program.agent is not None:
                program = self._open_agent_channels(gang, rank, logs, program, write_ends)
            out, err, *inherited = write_ends
            rank.pid = self._spawner.start(program, out, err, inherited)
        except OSError as error:
            return error.errno or 1
        finally:
            for descriptor in write_ends:
                os.close(descriptor)
        seen = proc.stat(rank.pid)
        rank.started = seen.started if seen else 0
        rank.session = rank.pid
        self._ranks[rank.pid] = (gang, rank)
        self._sessions[rank.pid] = gang.key
        return 0

    def _open_agent_channels(
        self, gang: SupervisedGang, rank: RankProcess, logs: str, program: spawn.Program, write_ends: list[int]
    ) -> spawn.Program:
        """Opens what an agent inherits: its ranks' streams, which outlive it, and a pipe for its messages."""
        agent = program.agent
        assert agent is not None  # noqa: S101 - callers check
        streams = []
        for number in range(agent.first, agent.first + agent.ranks):
            ends = self._open_streams(gang, rank, logs, str(number))
            write_ends += ends
            streams.append({"out": ends[0], "err": ends[1], "log": f"{logs}/{number}"})
        rank.messages = AgentMessages(
            self._poll, lambda message: self._report(gang, "agent", rank=rank.number, message=message)
        )
        write_ends.append(rank.messages.write_end)
        variables = {
            "WINDLASS_STREAMS": json.dumps(streams),
            "WINDLASS_REPORTS": str(rank.messages.write_end),
            "WINDLASS_RECORDS": f"{logs}/{agent.node}",
        }
        return program._replace(env={**program.env, **variables})

    def _open_streams(self, gang: SupervisedGang, rank: RankProcess, logs: str, name: str) -> list[int]:
        """Starts to read stdout and stderr. Returns the ends to write to."""
        return [self._open_stream(gang, rank, logs, f"{name}.{stream}") for stream in ("out", "err")]

    def _open_stream(self, gang: SupervisedGang, rank: RankProcess, logs: str, name: str) -> int:
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(read_end, False)
        rank.streams[name] = Stream(read_end, LogWriter(f"{logs}/{name}", self._limits, self._now))
        self._poll.watch(read_end, lambda _mask: self._pump(gang, rank, name, _CHUNK))
        return write_end

    def has_waiting_client(self) -> bool:
        """Tells whether a living client waits for a gang or for the news of its end."""
        return any(gang.owner and proc.is_alive(*gang.owner) for gang in self.by_key.values())

    def stop_abandoned(self) -> None:
        """Kills the gangs whose client ended while no controller was connected to cancel them, without grace."""
        for key, gang in list(self.by_key.items()):
            if gang.owner and gang.kill_at is None and not proc.is_alive(*gang.owner):
                self.stop(key, 0)

    # --- output --------------------------------------------------------------------------------------

    def _pump(self, gang: SupervisedGang, rank: RankProcess, name: str, budget: int) -> None:
        stream = rank.streams.get(name)
        if stream is None:
            return
        is_open = stream.pump(budget)
        if stream.log.trouble and not rank.loss_reported:
            rank.loss_reported = True
            number, _, suffix = name.partition(".")
            lost = int(number) if number.isdecimal() else rank.number
            self._report(gang, "output lost", rank=lost, stream=suffix, error=stream.log.trouble)
        if not is_open:
            self._close(rank, name)

    def _close(self, rank: RankProcess, name: str) -> None:
        stream = rank.streams.pop(name)
        self._poll.forget(stream.pipe)
        stream.close()

    # --- end -----------------------------------------------------------------------------------------

    def reap(self) -> None:
        """Records every child that has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            self._orphans.pop(pid, None)
            if pid in self._ranks:
                self._handle_end(*self._ranks.pop(pid), os.waitstatus_to_exitcode(status))
        for gang in list(self._ending.values()):
            self._conclude_if_empty(gang)

    def _handle_end(self, gang: SupervisedGang, rank: RankProcess, code: int) -> None:
        failure = self._spawner.failure(rank.pid)
        rank.pid = 0
        for each in gang.ranks:  # messages of agents come before this end
            if each.messages is not None:
                each.messages.read()
        for name in list(rank.streams):  # a child that keeps the pipe open must not delay the report
            self._pump(gang, rank, name, _PIPE_LIMIT)
        if failure:
            self._report(gang, "exit", rank=rank.number, code=code, error=failure)
        elif code < 0:
            self._report(gang, "exit", rank=rank.number, signal=-code)
        else:
            self._report(gang, "exit", rank=rank.number, code=code)

    # --- stop ----------------------------------------------------------------------------------------

    def stop(self, key: Key, grace: float) -> None:
        """Sends SIGTERM now, SIGKILL after `grace` seconds, and reports "gone" when nothing is left."""
        gang = self.by_key.get(key)
        if gang is None:
            gang = self.by_key[key] = SupervisedGang(key)
        if gang.gone:
            return
        if grace and any(rank.messages is not None for rank in gang.ranks):
            grace += _AGENT_EXTRA_GRACE_S
        kill_at = time.monotonic() + grace
        gang.kill_at = kill_at if gang.kill_at is None else min(gang.kill_at, kill_at)
        gang.stuck_at = gang.kill_at + _STUCK_AFTER_S
        self._ending[key] = gang
        alive = gang.alive()
        for rank in alive:
            _signal_group(rank.pid, signal.SIGTERM)
        if signalled := [rank.pid for rank in alive if rank.messages is None]:  # an agent signals its ranks itself
            self._terminate(gang, signalled)
        self._conclude_if_empty(gang)

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

    def drop(self, key: Key) -> None:
        """Forgets a gang whose end was acknowledged."""
        self.by_key.pop(key, None)

    def _conclude_if_empty(self, gang: SupervisedGang) -> None:
        """Reports a gang of which nothing is left as gone; sends SIGTERM to processes that were left behind since."""
        left = self._left_behind(gang)
        if not left and not gang.alive():
            self._conclude(gang)
        elif unsignalled := [pid for pid in left if pid not in gang.signalled]:
            kill(unsignalled, signal.SIGTERM)
            self._terminate(gang, unsignalled)

    def _terminate(self, gang: SupervisedGang, roots: list[int]) -> None:
        """Sends SIGTERM to descendants of `roots` that are not in a process group that was signalled as a whole."""
        gang.signalled.update(roots)
        groups = {rank.pid for rank in gang.alive()}
        processes = self._all_processes()
        below = [pid for pid in proc.descendants(roots, processes) if processes[pid].group not in groups]
        kill([pid for pid in below if pid not in gang.signalled], signal.SIGTERM)
        gang.signalled.update(below)

    def _kill(self, gang: SupervisedGang, now: float) -> None:
        roots = [rank.pid for rank in gang.alive()] + self._left_behind(gang)
        for rank in gang.alive():
            _signal_group(rank.pid, signal.SIGKILL)
        targets = roots + proc.descendants(roots, self._all_processes())
        kill(targets)
        if now > gang.stuck_at:
            gang.stuck_at = float("inf")
            self._report(gang, "stuck", pids=targets)

    def _all_processes(self) -> dict[int, proc.Stat]:
        """Returns all processes, from a scan that gangs stopped together share."""
        now = time.monotonic()
        if now - self._stats_taken > _KILL_INTERVAL_S / 2:
            self._stats, self._stats_taken = proc.all_stats(), now
        return self._stats

    def _conclude(self, gang: SupervisedGang) -> None:
        gang.gone = True
        del self._ending[gang.key]
        for rank in gang.ranks:
            for name in list(rank.streams):
                self._pump(gang, rank, name, _PIPE_LIMIT)
            for name in list(rank.streams):
                self._close(rank, name)
            if rank.messages is not None:
                rank.messages.close()
            self._sessions.pop(rank.session, None)
        self._report(gang, "gone")

    def _left_behind(self, gang: SupervisedGang) -> list[int]:
        """Returns children of the supervisor that are no ranks and belong to this gang, or to none and are younger."""
        for pid in proc.children(os.getpid()):
            if pid not in self._ranks and pid not in self._orphans:
                self._orphans[pid] = self._owner(pid)
        return [pid for pid, key in self._orphans.items() if key == gang.key or (key is None and _younger(pid, gang))]

    def _owner(self, pid: int) -> Key | None:
        job_id, _, generation = os.fsdecode(proc.environment(pid).get(b"WINDLASS_GANG", b"")).rpartition("/")
        key = (job_id, int(generation) if generation.isdecimal() else 0)
        if key in self.by_key:
            return key
        seen = proc.stat(pid)
        return self._sessions.get(seen.session) if seen else None

    def _report(self, gang: SupervisedGang, kind: str, **more: object) -> None:
        self._send_report({"report": kind, "job": gang.key[0], "generation": gang.key[1], **more})


def _younger(pid: int, gang: SupervisedGang) -> bool:
    seen = proc.stat(pid)
    return seen is not None and bool(gang.first_started) and seen.started >= gang.first_started


def _signal_group(pid: int, number: int) -> None:
    """Signals the rank's group, or the rank alone if it has not made its group yet."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        kill([pid], number)
    except PermissionError:
        pass
