"""The supervisor's main loop: carries out messages, reports ends, kills after a grace period, ends when unused.

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

import os
import signal
import socket
import time
from typing import Any, TypeAlias

from . import proc, process_cleanup
from .controller_connection import ControllerConnection
from .controller_timeout import ControllerTimeout
from .event_loop import Poller
from .gangs import SupervisedGangs
from .log_files import LogLimits
from .spawn import AgentRanks, Program

Message: TypeAlias = dict[str, Any]


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
