"""The controller's end of the connection to the supervisor: complete messages in and out, without blocking."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from windlass.backends.local.supervisor_start import SupervisorLink

Report: TypeAlias = dict[str, Any]

_CHUNK = 1 << 18
_END_TIMEOUT_S = 15.0
"""Seconds that a supervisor has to kill every process below it."""


class SupervisorConnection:
    """A connection with a `number`, which distinguishes it from earlier ones after a supervisor was replaced."""

    def __init__(self, link: SupervisorLink, number: int) -> None:
        self.link = link
        self.number = number
        self.supervisor = ""
        """Pid and start of the supervisor; "" until it has answered hello."""
        self._unread = b""
        self._unsent = bytearray()
        link.socket.setblocking(False)

    def fileno(self) -> int:
        """Returns the descriptor, for the event loop."""
        return self.link.socket.fileno()

    def send(self, message: Mapping[str, Any]) -> bool:
        """Sends now or, if the socket is full, when `flush` is called. Returns whether something is left to send."""
        self._unsent += json.dumps(message).encode() + b"\n"
        return self.flush()

    def flush(self) -> bool:
        """Sends as much as the socket takes. Returns whether something is left. `read` detects a broken connection."""
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
        """Returns the reports that have arrived; None when the supervisor has ended."""
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
        """Closes the connection."""
        self.link.socket.close()

    def end(self) -> bool:
        """Ends the supervisor and waits for it, for a bounded time, then closes. Returns whether it has ended."""
        self.link.socket.settimeout(_END_TIMEOUT_S)
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
