"""Listening sockets and outgoing connections, for other agents and for the store of the ranks."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
from typing import Callable

from windlass.agent.event_loop import WRITE, EventLoop
from windlass.agent.rendezvous.address_lookup import AddressLookup, SocketAddress

_NOT_AVAILABLE = (errno.EADDRINUSE, errno.EADDRNOTAVAIL)
_LOOKUP_TIMEOUT_S = 15.0
"""Longer than a resolver takes to pass over one name server that does not answer."""


def listen(host: str = "", port: int = 0) -> socket.socket:
    """A socket that listens on one address, or on all. Raises OSError."""
    if host:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def choose_interface(host: str) -> str:
    """The address to listen on for agents that meet at this host: itself if it is a loopback address, else all ("").

    A name other than localhost counts as one that other machines know.
    """
    if host == "localhost":
        return host
    try:
        return host if ipaddress.ip_address(host).is_loopback else ""
    except ValueError:
        return ""


def listen_if_local(host: str, port: int) -> socket.socket | None:
    """A socket at this address if it is one of this machine and the port is free; else None. Raises OSError."""
    try:
        return listen(host, port)
    except socket.gaierror:  # a name that is unknown until its pod exists
        return None
    except OSError as error:
        if error.errno in _NOT_AVAILABLE:
            return None
        raise


class ConnectAttempt:
    """One attempt to connect. Calls `on_answer` with the socket, or with None; never after `cancel`.

    `timeout`: seconds to connect, after the lookup of the address.
    """

    def __init__(
        self,
        loop: EventLoop,
        host: str,
        port: int,
        on_answer: Callable[[socket.socket | None], None],
        timeout: float = 1.0,
    ) -> None:
        self._loop, self._on_answer, self._timeout = loop, on_answer, timeout
        self._link: socket.socket | None = None
        self._lookup = AddressLookup(loop, host, port, self._connect)
        self._timer = loop.after(_LOOKUP_TIMEOUT_S, lambda: self._finish(connected=False))

    def cancel(self) -> None:
        """Closes the socket before an answer."""
        self._timer.cancel()
        self._lookup.cancel()
        if self._link is not None:
            self._loop.forget(self._link)
            self._link.close()
            self._link = None

    def _connect(self, found: SocketAddress | None) -> None:
        self._timer.cancel()
        if found is None:
            self._finish(connected=False)
            return
        self._timer = self._loop.after(self._timeout, lambda: self._finish(connected=False))
        try:
            self._link = socket.socket(found.family, socket.SOCK_STREAM)
            self._link.setblocking(False)
            self._link.connect_ex(found.address)
            self._loop.watch(self._link, self._on_writable, WRITE)
        except OSError:
            self._finish(connected=False)

    def _on_writable(self) -> None:
        assert self._link is not None  # noqa: S101 - it is being watched
        self._finish(connected=self._link.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0)

    def _finish(self, *, connected: bool) -> None:
        self._timer.cancel()
        self._lookup.cancel()
        link, self._link = self._link, None
        if link is not None:
            self._loop.forget(link)
        if not connected and link is not None:
            with contextlib.suppress(OSError):
                link.close()
            link = None
        self._on_answer(link)
