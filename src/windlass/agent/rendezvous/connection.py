"""A line between two agents: JSON, one message a line, over TCP; nobody ever waits for the other side."""

from __future__ import annotations

import json
import socket
import time
from typing import Any, Callable

from windlass.agent.event_loop import READ, WRITE, EventLoop

_MOST = 1 << 20
"""Bytes of one message, or of messages that wait to be sent: whoever is beyond that is no agent, or is gone."""
Message = dict[str, Any]


class Connection:
    """`hear` gets each message; `ended` is called once when the other side is gone, or never was there."""

    def __init__(
        self,
        loop: EventLoop,
        link: socket.socket,
        hear: Callable[[Connection, Message], None],
        ended: Callable[[Connection], None],
    ) -> None:
        self._loop, self._link, self._hear, self._ended = loop, link, hear, ended
        self._unread, self._unsent = b"", b""
        self._open = True
        self.heard = time.monotonic()
        link.setblocking(False)
        loop.watch(link, self._ready, READ)

    @property
    def here(self) -> str:
        """By which address of ours the other side is reached."""
        return str(self._link.getsockname()[0])

    @property
    def there(self) -> str:
        """The other side's address."""
        return str(self._link.getpeername()[0])

    def say(self, message: Message) -> None:
        """Send it now, or as soon as the other side takes it."""
        if self._open:
            self._unsent += json.dumps(message).encode() + b"\n"
            self._write()

    def close(self) -> None:
        """Hang up; `ended` is not called."""
        if self._open:
            self._open = False
            self._loop.forget(self._link)
            self._link.close()

    def lose(self) -> None:
        """The other side is taken for lost."""
        if self._open:
            self.close()
            self._ended(self)

    def _ready(self) -> None:
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
        if len(self._unsent) > _MOST:
            self._loop.after(0, self.lose)
        self._loop.watch(self._link, self._ready, READ | WRITE if self._unsent else READ)

    def _read(self) -> None:
        try:
            data = self._link.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.heard = time.monotonic()
        *lines, self._unread = (self._unread + data).split(b"\n")
        sound = bool(data) and len(self._unread) <= _MOST
        for line in lines:
            message = _message(line)
            if message is None:
                sound = False
            elif self._open:
                self._hear(self, message)
        if not sound:
            self.lose()


def _message(line: bytes) -> Message | None:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) and isinstance(said.get("say"), str) else None
