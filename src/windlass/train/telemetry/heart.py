"""Telling this rank's agent which phase of which step it is in, without ever waiting for it.

Without an agent there is nobody to tell, and nothing happens. A thread hears what the agent asks for: the flight
recorder's dump of a rank that hangs, which its main thread cannot write.
"""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from torch._C import _distributed_c10d

from windlass import wire

_LARGEST = 65536
_ALONE = 1
"""torchrun's generations begin with 0 restarts, ours with 1."""


class Heart:
    """Made once for a rank; `close` ends its thread."""

    def __init__(self, rank: int, environment: Mapping[str, str] = os.environ) -> None:
        self._rank = rank
        self._generation = int(environment.get(wire.GENERATION, _ALONE))
        self._beats = 0
        self._agent = environment.get(wire.AGENT_SOCKET, "")
        self._listener = environment.get(wire.LISTENER, "") if rank == 0 else ""
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._socket: socket.socket | None = None
        self.step = 0
        """The step that this rank is in, from 0."""
        if self._agent:
            self._open()

    def beat(self, phase: str) -> None:
        """This rank enters a phase of its step."""
        self._beats += 1
        self._tell(wire.Heartbeat(self._rank, self._generation, self.step, phase, self._beats))

    def measured(self, values: Mapping[str, float]) -> None:
        """What the steps since the last time were like."""
        self._tell(wire.Telemetry(self._rank, self._generation, self.step, values))

    def reported(self, values: Mapping[str, float]) -> None:
        """What all ranks' steps since the last report were like: for whoever listens besides the agent."""
        if self._listener:
            told = wire.Telemetry(self._rank, self._generation, self.step, values)
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                sending.sendto(wire.encode(told), socket.MSG_DONTWAIT, self._listener)

    def close(self) -> None:
        """Nothing more is told: what follows the loop is the script's own."""
        self._tell(wire.Goodbye(self._rank, self._generation))
        if self._socket is not None and self._folder is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            self._socket = None
            self._folder.cleanup()

    def _open(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="windlass-rank-")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"{self._folder.name}/rank.sock")
        self._tell(wire.Hello(self._rank, self._generation, os.getpid()))
        threading.Thread(target=self._hear, args=(self._socket,), name="agent", daemon=True).start()

    def _tell(self, message: wire.Message) -> None:
        """A full or lost socket is the agent's trouble: training goes on."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.sendto(wire.encode(message), socket.MSG_DONTWAIT, self._agent)

    def _hear(self, listening: socket.socket) -> None:
        while True:
            try:
                data = listening.recv(_LARGEST)
            except OSError:
                return
            if not data:
                return
            with contextlib.suppress(ValueError):
                message = wire.decode(data)
                if isinstance(message, wire.Dump):
                    _dump(Path(message.folder), self._rank)


def _dump(folder: Path, rank: int) -> None:
    """What torch's flight recorder has of the last collectives; nothing where it is off."""
    with contextlib.suppress(Exception):
        trace = _distributed_c10d._dump_fr_trace()  # type: ignore[attr-defined] # noqa: SLF001 - there is no public door
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"flight-recorder-rank{rank}.pickle").write_bytes(trace)
