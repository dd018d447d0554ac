"""The socket on which ranks are heard, and answered: datagrams of `windlass.wire`, never waited for by anybody."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Callable

from windlass import wire
from windlass.agent.loop import Loop

_LARGEST = 65536


class Heart:
    """`hear` is called with whatever ranks say; what is no message is dropped."""

    def __init__(self, loop: Loop, folder: Path, hear: Callable[[wire.Message], None]) -> None:
        self.path = str(folder / "agent.sock")
        self._hear = hear
        self._addresses: dict[int, str] = {}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.setblocking(False)
        self._loop = loop
        loop.watch(self._socket, self._receive)

    def tell(self, ranks: Iterable[int], message: wire.Message) -> None:
        """To those of them that have said something, from a socket with a name; a full one is not waited for."""
        for rank in ranks:
            if self._addresses.get(rank):
                with contextlib.suppress(OSError):
                    self._socket.sendto(wire.encode(message), self._addresses[rank])

    def forget(self) -> None:
        """A generation is over."""
        self._addresses.clear()

    def close(self) -> None:
        """Nobody is heard any more."""
        self._loop.forget(self._socket)
        self._socket.close()

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError, ValueError):
            data, sender = self._socket.recvfrom(_LARGEST)
            message = wire.decode(data)
            if isinstance(message, (wire.Hello, wire.Heartbeat)):
                self._addresses[message.rank] = sender
            self._hear(message)
