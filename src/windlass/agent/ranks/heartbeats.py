"""Where ranks are heard and answered: datagrams of `windlass.wire`, and tracks, in which ranks note their heartbeats.

No step waits for the agent: a track is memory, looked at now and then.
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
from windlass.agent.event_loop import EventLoop, Timer

_LARGEST = 65536
_LOOK = 0.5


class HeartbeatReceiver:
    """`hear` is called with whatever ranks say and when they did; what is no message is dropped."""

    def __init__(self, loop: EventLoop, folder: Path, hear: Callable[[wire.Message, float], None]) -> None:
        self.path = str(folder / "agent.sock")
        self._hear = hear
        self._addresses: dict[int, str] = {}
        self._tracks: dict[int, _Track] = {}
        """By the number that the kernel gives the memory: a process may train twice, and its pid be another's here."""
        self._timer: Timer | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.setblocking(False)
        self._loop = loop
        loop.watch(self._socket, self._receive)

    def look(self) -> None:
        """Hear what ranks have noted since the last time."""
        for track in self._tracks.values():
            track.seen, found = wire.noted(track.memory, track.seen)
            for heartbeat, at in found:
                self._hear(heartbeat, at)

    def tell(self, ranks: Iterable[int], message: wire.Message) -> None:
        """To those of them that have said something, from a socket with a name; a full one is not waited for."""
        for rank in ranks:
            if self._addresses.get(rank):
                with contextlib.suppress(OSError):
                    self._socket.sendto(wire.encode(message), self._addresses[rank])

    def forget(self) -> None:
        """A generation is over. Ranks that go on to another say so, and send their tracks with it."""
        self._addresses.clear()
        for track in self._tracks.values():
            track.memory.close()
        self._tracks.clear()

    def close(self) -> None:
        """Nobody is heard any more."""
        if self._timer is not None:
            self._timer.cancel()
        self.forget()
        self._loop.forget(self._socket)
        self._socket.close()

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError, ValueError):
            data, files, _, sender = socket.recv_fds(self._socket, _LARGEST, 1)
            try:
                message = wire.decode(data)
                if isinstance(message, wire.Hello) and files:
                    self._follow(files[0])
            finally:
                for file in files:
                    os.close(file)
            if isinstance(message, (wire.Hello, wire.Heartbeat)):
                self._addresses[message.rank] = sender
            self.look()  # what a rank has noted came before what it says
            self._hear(message, time.monotonic())

    def _follow(self, file: int) -> None:
        """Look at a rank's track from now on. What is no memory of that size is nobody's."""
        number = os.fstat(file).st_ino
        if number not in self._tracks:
            with contextlib.suppress(OSError, ValueError):
                self._tracks[number] = _Track(mmap.mmap(file, wire.TRACK, prot=mmap.PROT_READ))
                self._look_from_now_on()

    def _look_from_now_on(self) -> None:
        if self._timer is None:
            self._timer = self._loop.after(_LOOK, self._look_again)

    def _look_again(self) -> None:
        self.look()
        self._timer = None
        if self._tracks:
            self._look_from_now_on()


@dataclass
class _Track:
    memory: mmap.mmap
    seen: int = 0
