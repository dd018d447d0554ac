"""Receives the messages of ranks: datagrams of `windlass.wire`, and heartbeats from rings in shared memory.

No step waits for the agent: a rank writes to its ring, and the agent reads it twice a second. `rank_messages` applies
the messages.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from windlass import wire
from windlass.agent.event_loop import DelayedCall, EventLoop

_MAX_MESSAGE_BYTES = 65536
_READ_INTERVAL_S = 0.5


class HeartbeatReceiver:
    """The agent's socket and the rings of its ranks.

    Calls `receive` with each message of a rank and its time; drops datagrams that are no message.
    """

    def __init__(self, loop: EventLoop, folder: Path, receive: Callable[[wire.Message, float], None]) -> None:
        self.path = str(folder / "agent.sock")
        self._receive = receive
        self._addresses: dict[int, str] = {}
        self._rings: dict[int, _Ring] = {}
        """By the memory's inode: a process may train twice, and pids differ between PID namespaces."""
        self._timer: DelayedCall | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.setblocking(False)
        self._loop = loop
        loop.watch(self._socket, self._read_datagram)

    def read_rings(self) -> None:
        """Passes on the heartbeats that ranks have written since the last call."""
        for ring in self._rings.values():
            ring.seen, found = wire.read_heartbeats(ring.memory, ring.seen)
            for heartbeat, at in found:
                self._receive(heartbeat, at)

    def send(self, ranks: Iterable[int], message: wire.Message) -> None:
        """Sends to those ranks that have sent from a named socket; a full socket misses the message."""
        for rank in ranks:
            if self._addresses.get(rank):
                with contextlib.suppress(OSError):
                    self._socket.sendto(wire.encode(message), self._addresses[rank])

    def forget(self) -> None:
        """Drops all ranks: a generation is over. Survivors send another `Hello`, and their rings with it."""
        self._addresses.clear()
        for ring in self._rings.values():
            ring.memory.close()
        self._rings.clear()

    def close(self) -> None:
        """Ends the channel."""
        if self._timer is not None:
            self._timer.cancel()
        self.forget()
        self._loop.forget(self._socket)
        self._socket.close()

    def _read_datagram(self) -> None:
        with contextlib.suppress(BlockingIOError, ValueError):
            data, files, _, sender = socket.recv_fds(self._socket, _MAX_MESSAGE_BYTES, 1)
            try:
                message = wire.decode(data)
                if isinstance(message, wire.Hello) and files:
                    self._add_ring(files[0])
            finally:
                for file in files:
                    os.close(file)
            if isinstance(message, (wire.Hello, wire.Heartbeat)):
                self._addresses[message.rank] = sender
            self.read_rings()  # heartbeats in rings precede this message
            self._receive(message, time.monotonic())

    def _add_ring(self, file: int) -> None:
        """Reads a rank's ring from now on; ignores a descriptor that is no memory of that size."""
        number = os.fstat(file).st_ino
        if number not in self._rings:
            with contextlib.suppress(OSError, ValueError):
                self._rings[number] = _Ring(mmap.mmap(file, wire.RING_SIZE, prot=mmap.PROT_READ))
                self._schedule_read()

    def _schedule_read(self) -> None:
        if self._timer is None:
            self._timer = self._loop.after(_READ_INTERVAL_S, self._read_again)

    def _read_again(self) -> None:
        self.read_rings()
        self._timer = None
        if self._rings:
            self._schedule_read()


@dataclass
class _Ring:
    memory: mmap.mmap
    seen: int = 0
