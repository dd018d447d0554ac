"""The controller's end of the line to the supervisor: whole messages in, whole messages out, never waiting."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from windlass.backends.local.supervisor_start import Link

Report: TypeAlias = dict[str, Any]

_CHUNK = 1 << 18
_LAST_WAIT = 15.0
"""Seconds a supervisor gets to kill everything below it."""


class SupervisorConnection:
    """`number` tells one line from the next, after a supervisor had to be replaced."""

    def __init__(self, link: Link, number: int) -> None:
        self.link = link
        self.number = number
        self.supervisor = ""
        """Who is at the other end: pid and start; "" until it has said hello."""
        self._unread = b""
        self._unsent = bytearray()
        link.socket.setblocking(False)

    def fileno(self) -> int:
        """For the event loop."""
        return self.link.socket.fileno()

    def send(self, message: Mapping[str, Any]) -> bool:
        """Say it now or, if the socket is full, when `flush` is called. Returns whether something is left."""
        self._unsent += json.dumps(message).encode() + b"\n"
        return self.flush()

    def flush(self) -> bool:
        """Send what the socket takes; whether something is left. A broken line is found out by `read`."""
        while self._unsent:
            try:
                sent = self.link.socket.send(self._unsent)
            except BlockingIOError:
                return True
            except OSError:
                self._unsent.clear()
                return False
            del self._unsent[:sent]
        return False

    def read(self) -> list[Report] | None:
        """The reports that have come; None when the supervisor is gone."""
        try:
            data = self.link.socket.recv(_CHUNK)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        *lines, self._unread = (self._unread + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """Hang up."""
        self.link.socket.close()

    def end(self) -> bool:
        """Have the supervisor end, and wait for it, for a bounded time. Returns whether it has ended; then hang up."""
        self.link.socket.settimeout(_LAST_WAIT)
        ended = False
        try:
            self.link.socket.sendall(bytes(self._unsent) + b'{"do": "end"}\n')
            while self.link.socket.recv(_CHUNK):
                pass
            ended = True
        except OSError as error:
            ended = not isinstance(error, TimeoutError)
        self.close()
        return ended
