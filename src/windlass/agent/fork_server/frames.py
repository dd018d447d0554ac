"""Length-prefixed JSON over a Unix socket, with file descriptors passed by SCM_RIGHTS.

`client` (the agent) and `server` (the fork server) exchange these frames.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

_HEAD = struct.Struct("!I")
_MAX_FILES = 8


class Frame(NamedTuple):
    """A message and its descriptors, which the receiver closes."""

    message: dict[str, Any]
    files: tuple[int, ...]


def send(link: socket.socket, message: dict[str, Any], files: Sequence[int] = ()) -> None:
    """Writes one whole frame. Raises OSError when the other side is gone."""
    body = json.dumps(message).encode()
    socket.send_fds(link, [_HEAD.pack(len(body))], list(files))
    link.sendall(body)


def receive(link: socket.socket) -> Frame | None:
    """Waits for one frame; None when the other side is gone."""
    try:
        head, files, _, _ = socket.recv_fds(link, _HEAD.size, _MAX_FILES)
        head += _read_exactly(link, _HEAD.size - len(head)) if head else b""
        body = _read_exactly(link, _HEAD.unpack(head)[0]) if head else b""
    except (OSError, EOFError):
        return None
    return Frame(json.loads(body), tuple(files)) if body else None


def _read_exactly(link: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = link.recv(min(size - len(data), 1 << 20))
        if not more:
            raise EOFError
        data += more
    return bytes(data)
