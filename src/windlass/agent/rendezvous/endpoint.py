"""The rendezvous endpoint: the address from `--rdzv-endpoint`, at which new agents look for the leader.

The first agent that can listen there leads. A leader that cannot listen there announces itself to the agent that does
(`leader_announcement`).
"""

from __future__ import annotations

import contextlib
import socket
from typing import Callable

from windlass.agent.event_loop import EventLoop
from windlass.agent.options import RendezvousOptions
from windlass.agent.rendezvous import sockets


class RendezvousEndpoint:
    """The socket of the rendezvous endpoint. Calls `accept` with the listening socket when an agent connects."""

    def __init__(
        self,
        loop: EventLoop,
        rendezvous: RendezvousOptions,
        interface: str,
        accept: Callable[[socket.socket], None],
    ) -> None:
        self._loop, self._rendezvous, self._interface, self._accept = loop, rendezvous, interface, accept
        self._listener: socket.socket | None = None

    @property
    def is_listening(self) -> bool:
        """Whether this agent listens at the endpoint."""
        return self._listener is not None

    def listen(self, address: str = "") -> bool:
        """Listens at the endpoint if it is free and on this machine. Returns whether this agent listens there.

        `address`: that of the endpoint's host, where it is known; else the name is looked up, which may take long.
        """
        if self._listener is None:
            self._listener = self._open(address or self._rendezvous.host)
            if self._listener is not None:
                listener = self._listener
                self._loop.watch(listener, lambda: self._accept(listener))
        return self._listener is not None

    def _open(self, host: str) -> socket.socket | None:
        if self._rendezvous.is_host is False:
            return None
        if self._rendezvous.is_host is None:
            return sockets.listen_if_local(host, self._rendezvous.port)
        with contextlib.suppress(OSError):
            return sockets.listen(self._interface, self._rendezvous.port)
        return None
