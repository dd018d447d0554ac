"""The connection to the controller: JSON, one message per line, over a unix socket.

Each report has a sequence number and is kept until it is acknowledged, so that the next controller receives the
reports that a killed controller had received but not stored.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections import deque
from typing import Any, TypeAlias

from .event_loop import READ, WRITE, Callback, Poller

Message: TypeAlias = dict[str, Any]

_CHUNK = 1 << 18


class ControllerConnection:
    """Connection to at most one controller at a time; the newest wins, since it holds the lock.

    `on_ready` is called when `read` may have messages.
    """

    def __init__(self, poll: Poller, listener: socket.socket, on_ready: Callback) -> None:
        self.connected = False
        self._poll = poll
        self._listener = listener
        self._on_ready = on_ready
        self._peer: socket.socket | None = None
        self._unread = b""
        self._unsent = bytearray()
        self._number = 0
        self._unacknowledged: deque[tuple[int, bytes, Message]] = deque()
        self._greeted = False
        listener.setblocking(False)
        poll.watch(listener.fileno(), self._accept)

    # --- sending -----------------------------------------------------------------------------------------

    def report(self, report: Message) -> None:
        """Numbers and keeps a report, and sends it as soon as a controller has said hello."""
        self._number += 1
        line = json.dumps({"seq": self._number, **report}).encode() + b"\n"
        self._unacknowledged.append((self._number, line, report))
        if self._greeted:
            self._unsent += line

    def greet(self, hello: Message) -> None:
        """Answers a controller's hello, and repeats all unacknowledged reports."""
        self._unsent += json.dumps({"report": "hello", **hello}).encode() + b"\n"
        for _, line, _ in self._unacknowledged:
            self._unsent += line
        self._greeted = True

    def forget_acknowledged(self, number: int) -> list[Message]:
        """Forgets all reports up to this number and returns them."""
        done = []
        while self._unacknowledged and self._unacknowledged[0][0] <= number:
            done.append(self._unacknowledged.popleft()[2])
        return done

    def flush(self) -> None:
        """Sends as much as the socket takes; the rest when it takes more."""
        if self._peer is None or not self._unsent:
            return
        try:
            sent = self._peer.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.disconnect()
            return
        del self._unsent[:sent]
        self._poll.change(self._peer.fileno(), READ | WRITE if self._unsent else READ)

    # --- receiving ---------------------------------------------------------------------------------------

    def _accept(self, _mask: int) -> None:
        try:
            peer, _ = self._listener.accept()
        except OSError:
            return
        if not _may_command(peer):
            peer.close()
            return
        self.disconnect()
        peer.setblocking(False)
        self._peer, self.connected = peer, True
        self._poll.watch(peer.fileno(), self._on_ready)

    def read(self, mask: int) -> list[Message]:
        """Returns the messages that have arrived. `mask`: the readiness that the poller has reported."""
        assert self._peer is not None  # noqa: S101 - only watched while there is one
        try:
            data = self._peer.recv(_CHUNK)
        except BlockingIOError:
            if mask & WRITE:
                self.flush()
            return []
        except OSError:
            data = b""
        if not data:
            self.disconnect()
            return []
        *lines, self._unread = (self._unread + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def disconnect(self) -> None:
        """Closes the connection: the controller has ended, or another one has connected."""
        if self._peer is not None:
            self._poll.forget(self._peer.fileno())
            self._peer.close()
        self._peer, self.connected, self._greeted = None, False, False
        self._unread = b""
        self._unsent.clear()

    def stop_listening(self) -> None:
        """Accepts no further controller; the present one sees the end of the connection when this process ends."""
        self._poll.forget(self._listener.fileno())
        self._listener.close()


def _may_command(peer: socket.socket) -> bool:
    """Tells whether the peer is this user or root; no other may start processes here."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid = struct.unpack("3i", credentials)[1]
    return uid in (0, os.getuid())
