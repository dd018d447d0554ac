"""Listening and calling: for other agents, and for the ranks' store."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
from typing import Callable

from windlass.agent.event_loop import WRITE, EventLoop

_NOT_OURS = (errno.EADDRINUSE, errno.EADDRNOTAVAIL)


def listen(host: str = "", port: int = 0) -> socket.socket:
    """On one address, or on all. Raises OSError."""
    if host:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def choose_interface(host: str) -> str:
    """Where to listen for those who meet at this host: only there if no other machine reaches it, else everywhere.

    A name other than localhost counts as one that others know.
    """
    if host == "localhost":
        return host
    try:
        return host if ipaddress.ip_address(host).is_loopback else ""
    except ValueError:
        return ""


def listen_if_local(host: str, port: int) -> socket.socket | None:
    """At this address if it is one of this machine and the port is free; else None."""
    try:
        return listen(host, port)
    except socket.gaierror:  # a name that will be known when its pod is there
        return None
    except OSError as wrong:
        if wrong.errno in _NOT_OURS:
            return None
        raise


class ConnectAttempt:
    """One attempt to connect. `answered` gets the socket, or None; neither comes after `cancel`."""

    def __init__(
        self,
        loop: EventLoop,
        host: str,
        port: int,
        answered: Callable[[socket.socket | None], None],
        patience: float = 1.0,
    ) -> None:
        self._loop, self._answered = loop, answered
        self._link: socket.socket | None = None
        self._timer = loop.after(patience, lambda: self._done(reached=False))
        try:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self._link = socket.socket(family, socket.SOCK_STREAM)
            self._link.setblocking(False)
            self._link.connect_ex(address)
            loop.watch(self._link, self._connected, WRITE)
        except OSError:
            self._timer.cancel()
            self._timer = loop.after(0, lambda: self._done(reached=False))

    def cancel(self) -> None:
        """Hang up before anybody has answered."""
        self._timer.cancel()
        if self._link is not None:
            self._loop.forget(self._link)
            self._link.close()
            self._link = None

    def _connected(self) -> None:
        assert self._link is not None  # noqa: S101 - it is being watched
        self._done(reached=self._link.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0)

    def _done(self, *, reached: bool) -> None:
        self._timer.cancel()
        link, self._link = self._link, None
        if link is not None:
            self._loop.forget(link)
        if not reached and link is not None:
            with contextlib.suppress(OSError):
                link.close()
            link = None
        self._answered(link)
