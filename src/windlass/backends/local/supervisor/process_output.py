"""The output of one process: its streams into log files, and the messages of an agent about its own ranks.

The streams of an agent's ranks are opened here as well, and the agent inherits them: they outlive it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import NamedTuple, Protocol

from .agent_messages import AgentMessages
from .event_loop import Poller
from .log_files import LoggedStream, LogLimits, LogWriter
from .spawn import AgentRanks, Program

_CHUNK = 65536
"""Bytes read of one stream before the others are read."""
_PIPE_LIMIT = 1 << 20
"""Upper bound of a pipe's content: a rank's last output is read completely, but not the endless output of a child."""


class LogSettings(NamedTuple):
    """The kept amount of each stream, and the clock of its index, in ms."""

    limits: LogLimits
    now: Callable[[], int]


class ReportOfGang(Protocol):
    """Sends a report about the gang of a rank."""

    def __call__(self, kind: str, /, **more: object) -> None:
        """Sends a report of this kind, with its further fields."""


class ProcessOutput:
    """Streams of process `number` of a gang, and messages if it is an agent. `logs`: the folder of the log files."""

    def __init__(self, poll: Poller, number: int, logs: str, settings: LogSettings, report: ReportOfGang) -> None:
        self._poll = poll
        self._number = number
        self._logs = logs
        self._settings = settings
        self._report = report
        self._streams: dict[str, LoggedStream] = {}
        """Streams by the name of their files."""
        self.messages: AgentMessages | None = None
        self._loss_reported = False
        """Whether the loss of output was reported; it is reported once."""

    def open(self, program: Program, write_ends: list[int]) -> Program:
        """Adds the descriptors that the program writes to: stdout, stderr, then others that it inherits.

        Returns the program with the variables that tell an agent about them. The caller closes the descriptors, also
        after an OSError.
        """
        agent = program.agent
        write_ends += self._open_streams(agent.node if agent else str(self._number))
        if agent is None:
            return program
        variables = self._open_for_agent(agent, write_ends)
        return program._replace(env={**program.env, **variables})

    def _open_for_agent(self, agent: AgentRanks, write_ends: list[int]) -> dict[str, str]:
        """Opens the streams of its ranks, and a pipe for its messages. Returns its variables."""
        streams = []
        for number in range(agent.first, agent.first + agent.ranks):
            ends = self._open_streams(str(number))
            write_ends += ends
            streams.append({"out": ends[0], "err": ends[1], "log": f"{self._logs}/{number}"})
        self.messages = AgentMessages(
            self._poll, lambda message: self._report("agent", rank=self._number, message=message)
        )
        write_ends.append(self.messages.write_end)
        return {
            "WINDLASS_STREAMS": json.dumps(streams),
            "WINDLASS_REPORTS": str(self.messages.write_end),
            "WINDLASS_RECORDS": f"{self._logs}/{agent.node}",
        }

    def _open_streams(self, name: str) -> list[int]:
        """Starts to read stdout and stderr. Returns the ends to write to."""
        return [self._open_stream(f"{name}.{stream}") for stream in ("out", "err")]

    def _open_stream(self, name: str) -> int:
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(read_end, False)
        self._streams[name] = LoggedStream(read_end, LogWriter(f"{self._logs}/{name}", *self._settings))
        self._poll.watch(read_end, lambda _mask: self._pump(name, _CHUNK))
        return write_end

    def drain(self) -> None:
        """Stores what the streams hold now. A child that keeps one open does not delay the caller."""
        for name in list(self._streams):
            self._pump(name, _PIPE_LIMIT)

    def close(self) -> None:
        """Stores what the streams hold, and closes them and the messages."""
        self.drain()
        for name in list(self._streams):
            self._close(name)
        if self.messages is not None:
            self.messages.close()

    def _pump(self, name: str, budget: int) -> None:
        stream = self._streams.get(name)
        if stream is None:
            return
        is_open = stream.pump(budget)
        if stream.log.trouble and not self._loss_reported:
            self._loss_reported = True
            number, _, suffix = name.partition(".")
            lost = int(number) if number.isdecimal() else self._number
            self._report("output lost", rank=lost, stream=suffix, error=stream.log.trouble)
        if not is_open:
            self._close(name)

    def _close(self, name: str) -> None:
        stream = self._streams.pop(name)
        self._poll.forget(stream.pipe)
        stream.close()
