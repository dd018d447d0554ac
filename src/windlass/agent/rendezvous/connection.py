"""A connection of an agent: one JSON message a line over TCP. Neither side ever waits for the other.

Connections between two agents are authenticated (`authentication`); those to a controller are under TLS (`tls_link`).
"""

from __future__ import annotations

import json
import socket
from typing import Any, Callable

from windlass.agent.event_loop import READ, WRITE, EventLoop
from windlass.agent.rendezvous.authentication import Authentication
from windlass.agent.rendezvous.tls_link import TlsLink

_MAX_BYTES = 1 << 20
"""Maximum bytes of one message, and of unsent messages; beyond it the connection is closed."""
_MAX_UNPROVEN_BYTES = 1 << 14
"""The same, while the other side has not proved the secret."""
Message = dict[str, Any]


class AgentConnection:
    """One connection. Calls `receive` with each message, and `on_lost` once when the other side is gone.

    `on_lost` is also called if there never was another side. With `authentication`, no message is sent before the other
    side's challenge, and nothing that it sends is parsed before its HMAC is verified.
    """

    def __init__(
        self,
        loop: EventLoop,
        link: socket.socket | TlsLink,
        receive: Callable[[AgentConnection, Message], None],
        on_lost: Callable[[AgentConnection], None],
        authentication: Authentication | None = None,
    ) -> None:
        self._loop, self._link, self._receive, self._on_lost = loop, link, receive, on_lost
        self._authentication = authentication
        self._unread, self._unsent = b"", b""
        self._unsigned: list[bytes] = []
        """Messages that wait for the other side's challenge."""
        self._open = True
        self._unanswered = 0
        """Heartbeats sent since the last data from the other side."""
        link.setblocking(False)
        loop.watch(link, self._on_event, READ)
        if authentication is not None:
            self._send_line(authentication.challenge)

    @property
    def is_open(self) -> bool:
        """Whether neither side has closed it."""
        return self._open

    @property
    def is_peer_proven(self) -> bool:
        """Whether the other side has proved the secret, where one is asked for."""
        return self._authentication is None or self._authentication.is_peer_proven

    @property
    def own_address(self) -> str:
        """Address of this machine under which the other side reaches it."""
        return str(self._link.getsockname()[0])

    @property
    def peer_address(self) -> str:
        """Address of the other side; "" if it has reset the connection."""
        try:
            return str(self._link.getpeername()[0])
        except OSError:
            return ""

    def send(self, message: Message) -> None:
        """Sends a message now, or as soon as the other side takes it."""
        self.send_encoded(encode_message(message))

    def send_encoded(self, body: bytes) -> None:
        """Sends a message that `encode_message` has encoded, once for many connections."""
        if self._authentication is None:
            self._send_line(body)
        elif self._authentication.is_challenged:
            self._send_line(self._authentication.sign(body))
        else:
            self._unsigned.append(body)

    def beat(self, heartbeat: Message | None, attempts: int) -> None:
        """Sends a heartbeat, or loses the connection after `attempts` of them in a row without an answer.

        Counts heartbeats, not seconds: while this agent is paused it reads no answer either. None is counted and not
        sent, for another side that takes no heartbeats yet.
        """
        if self._unanswered >= attempts:
            self.lose()
            return
        self._unanswered += 1
        if heartbeat is not None:
            self.send(heartbeat)

    def close(self) -> None:
        """Closes the connection without a call of `on_lost`."""
        if self._open:
            self._open = False
            self._loop.forget(self._link)
            self._link.close()

    def lose(self) -> None:
        """Closes the connection because the other side is taken for lost."""
        if self._open:
            self.close()
            self._on_lost(self)

    def _send_line(self, line: bytes) -> None:
        if self._open:
            self._unsent += line + b"\n"
            self._write()

    def _on_event(self) -> None:
        if self._unsent:
            self._write()
        self._read()

    def _write(self) -> None:
        try:
            self._unsent = self._unsent[self._link.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._loop.after(0, self.lose)
            return
        if len(self._unsent) > _MAX_BYTES:
            self._loop.after(0, self.lose)
        self._loop.watch(self._link, self._on_event, READ | WRITE if self._unsent else READ)

    def _read(self) -> None:
        try:
            data = self._link.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            if self._open and not self._take_line(line):
                self.lose()
        if not data or len(self._unread) > (_MAX_BYTES if self.is_peer_proven else _MAX_UNPROVEN_BYTES):
            self.lose()
        elif self.is_peer_proven:
            self._unanswered = 0

    def _take_line(self, line: bytes) -> bool:
        """Takes one line. Returns False if it is no message of a peer that has proved the secret, and no challenge."""
        body: bytes | None = line
        if self._authentication is not None:
            if not self._authentication.is_challenged:
                return self._take_challenge(self._authentication, line)
            body = self._authentication.verify(line)
        message = None if body is None else _parse(body)
        if message is None:
            return False
        self._receive(self, message)
        return True

    def _take_challenge(self, authentication: Authentication, line: bytes) -> bool:
        if not authentication.take_challenge(line):
            return False
        waiting, self._unsigned = self._unsigned, []
        for body in waiting:
            self._send_line(authentication.sign(body))
        return True


def encode_message(message: Message) -> bytes:
    """The bytes of a message."""
    return json.dumps(message).encode()


def _parse(line: bytes) -> Message | None:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) and isinstance(message.get("type"), str) else None
