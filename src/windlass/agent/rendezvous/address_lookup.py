"""Looks up the address of a host in a thread, because a name server that does not answer takes many seconds.

Meanwhile the agent passes on signals and sends heartbeats.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import Any, Callable, NamedTuple

from windlass.agent.event_loop import EventLoop


class SocketAddress(NamedTuple):
    """Family and address of a socket."""

    family: socket.AddressFamily
    address: Any
    """The argument of `socket.connect`; its first element is the numeric address of the host."""


class AddressLookup:
    """One lookup. Calls `on_address` once from the loop, with None for an unknown name; never after `cancel`."""

    def __init__(
        self, loop: EventLoop, host: str, port: int, on_address: Callable[[SocketAddress | None], None]
    ) -> None:
        self._loop, self._host, self._port, self._on_address = loop, host, port, on_address
        self._found: SocketAddress | None = None
        self._end, theirs = os.pipe()
        loop.watch(self._end, self._finish)
        threading.Thread(target=self._look_up, args=(theirs,), name="address", daemon=True).start()

    def cancel(self) -> None:
        """Drops the lookup; its thread ends with the answer of the name server."""
        if self._end >= 0:
            self._loop.forget(self._end)
            os.close(self._end)
            self._end = -1

    def _look_up(self, done: int) -> None:
        with contextlib.suppress(OSError, UnicodeError):
            family, _, _, _, address = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)[0]
            self._found = SocketAddress(family, address)
        os.close(done)  # makes the other end of the pipe readable

    def _finish(self) -> None:
        self.cancel()
        self._on_address(self._found)
