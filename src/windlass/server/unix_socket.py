"""The unix socket in the state folder, for folder paths of any length."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

NAME = "api.sock"
_BACKLOG = 512
_UCRED = struct.Struct("3i")


class StrangerError(PermissionError):
    """Another user's process listens on the socket. Nothing was sent to it."""

    def __init__(self, uid: int) -> None:
        super().__init__(errno.EPERM, f"it is served by another user (uid {uid})")
        self.uid = uid


@contextlib.contextmanager
def _short_path(folder: Path, name: str) -> Iterator[str]:
    """A short path to `folder/name`: the kernel takes 107 characters at most (unix(7))."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def connect(folder: Path, timeout: float | None) -> socket.socket:
    """Connects to the daemon of a state folder. Raises OSError, StrangerError if it runs as another user."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        with _short_path(folder, NAME) as path:
            connection.connect(path)
        _, uid = peer(connection)
        if uid != os.geteuid():
            raise StrangerError(uid)
    except OSError:
        connection.close()
        raise
    return connection


def listen(folder: Path) -> socket.socket:
    """Listens in a state folder, for its owner only. Replaces an old socket; the caller must hold the folder's lock."""
    (folder / NAME).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with _short_path(folder, NAME) as path:
            listener.bind(path)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener


def peer(connection: socket.socket) -> tuple[int, int]:
    """(pid, uid) of the process at the other end, from the kernel (SO_PEERCRED)."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _gid = _UCRED.unpack(raw)
    return pid, uid
