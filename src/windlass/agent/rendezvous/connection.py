"""A connection between two agents: one JSON message a line over TCP. Neither side ever waits for the other."""

from __future__ import annotations

import json
import socket
import time
from typing import Any, Callable

from windlass.agent.event_loop import READ, WRITE, EventLoop

_MAX_BYTES = 1 << 20
"""Maximum bytes of one message, and of unsent messages; beyond it the connection is closed."""
Message = dict[str, Any]


class AgentConnection:
    """One connection. Calls `receive` with each message, and `on_lost` once when the other side is gone.

    `on_lost` is also called if there never was another side.
    """

    def __init__(
        self,
        loop: EventLoop,
        link: socket.socket,
        receive: Callable[[AgentConnection, Message], None],
        on_lost: Callable[[AgentConnection], None],
    ) -> None:
        self._loop, self._link, self._receive, self._on_lost = loop, link, receive, on_lost
        self._unread, self._unsent = b"", b""
        self._open = True
        self.last_received = time.monotonic()
        link.setblocking(False)
        loop.watch(link, self._on_event, READ)

    @property
    def own_address(self) -> str:
        """Address of this machine under which the other side reaches it."""
        return str(self._link.getsockname()[0])

    @property
    def peer_address(self) -> str:
        """Address of the other side."""
        return str(self._link.getpeername()[0])

    def send(self, message: Message) -> None:
        """Sends a message now, or as soon as the other side takes it."""
        if self._open:
            self._unsent += json.dumps(message).encode() + b"\n"
            self._write()

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
        self.last_received = time.monotonic()
        *lines, self._unread = (self._unread + data).split(b"\n")
        is_sound = bool(data) and len(self._unread) <= _MAX_BYTES
        for line in lines:
            message = _parse(line)
            if message is None:
                is_sound = False
            elif self._open:
                self._receive(self, message)
        if not is_sound:
            self.lose()


def _parse(line: bytes) -> Message | None:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) and isinstance(message.get("type"), str) else None
