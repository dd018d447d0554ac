"""The TLS connection to a controller: its handshake on the event loop, and the link that results."""

from __future__ import annotations

import contextlib
import socket
import ssl
from functools import partial
from typing import Any, Callable

from windlass import wire
from windlass.agent.event_loop import READ, WRITE, EventLoop

_BLOCKED = (ssl.SSLWantReadError, ssl.SSLWantWriteError)
_TIMEOUT_S = 3.0
"""Seconds in which the handshake must be complete."""


def trust_only(authority: str) -> ssl.SSLContext:
    """A context that accepts a controller whose certificate this authority (PEM) has signed. Raises ValueError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cadata=authority)
    except (ssl.SSLError, TypeError, ValueError) as error:
        raise ValueError(f"{wire.CONTROLLER_AUTHORITY}: no certificate in PEM is readable: {error}") from None
    return context


class TlsLink:
    """A connection under TLS with the methods of a socket that does not block."""

    def __init__(self, tls: ssl.SSLSocket) -> None:
        self._tls = tls
        self.fileno, self.close, self.setblocking = tls.fileno, tls.close, tls.setblocking
        self.getsockname, self.getpeername = tls.getsockname, tls.getpeername

    def send(self, data: bytes) -> int:
        """Sends some of the data; returns how many bytes. Raises OSError, BlockingIOError if it has to wait."""
        try:
            return self._tls.send(data)
        except _BLOCKED as error:
            raise BlockingIOError from error

    def recv(self, size: int) -> bytes:
        """Returns some data, b"" at the end. Raises OSError, BlockingIOError if there is none yet."""
        try:
            return self._tls.recv(size)
        except _BLOCKED as error:
            raise BlockingIOError from error


class TlsHandshake:
    """The handshake on a new connection, which it takes over.

    Calls `on_answer` once, not from the constructor: with the link and "", or with None and the reason of the failure.
    """

    def __init__(
        self,
        loop: EventLoop,
        link: socket.socket,
        context: ssl.SSLContext,
        on_answer: Callable[[TlsLink | None, str], None],
    ) -> None:
        self._loop, self._on_answer = loop, on_answer
        self._tls: ssl.SSLSocket | None = None
        self._timer = loop.after(_TIMEOUT_S, lambda: self._finish(f"no TLS handshake within {_TIMEOUT_S:.0f} s"))
        link.setblocking(False)
        try:
            self._tls = context.wrap_socket(link, server_hostname=wire.CONTROLLER_NAME, do_handshake_on_connect=False)
            loop.watch(self._tls, self._continue, WRITE)
        except OSError as error:
            link.close()
            self._timer.cancel()
            self._timer = loop.after(0, partial(self._finish, str(error)))

    def _continue(self) -> None:
        assert self._tls is not None  # noqa: S101 - it is being watched
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._loop.watch(self._tls, self._continue, READ)
        except ssl.SSLWantWriteError:
            self._loop.watch(self._tls, self._continue, WRITE)
        except OSError as error:
            self._finish(str(error))
        else:
            self._finish("")

    def _finish(self, failure: str) -> None:
        self._timer.cancel()
        tls, self._tls = self._tls, None
        if tls is not None:
            self._loop.forget(tls)
        link: Any = TlsLink(tls) if tls is not None and not failure else None
        if tls is not None and failure:
            with contextlib.suppress(OSError):
                tls.close()
        self._on_answer(link, failure)
