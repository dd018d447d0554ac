"""Tracks the TCP connections of process groups and shuts them down, which ends collectives that wait for a lost peer.

gloo notices a killed peer at once, a silent one never. `abort` of a gloo group does not wake a thread that waits in a
collective (torch 2.13); closing the connections does, with one exception. A message that could not be written at once,
because its receiver is gone or slow, is lost when the connection ends (`signalException` of gloo's TCP pairs skips it),
and a gloo thread waits for it until a timeout. Groups with closed connections are therefore never freed, because
freeing waits for their threads, and the agent respawns a rank that does not return from a collective.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from torch.distributed import distributed_c10d

_DESCRIPTORS = Path("/proc/self/fd")


class GroupConnections:
    """The connections opened inside `tracking`. Without /proc none are known, and `shut_down` does nothing."""

    def __init__(self) -> None:
        self._tracked: set[tuple[int, int]] = set()
        self._shutdowns = 0

    @contextlib.contextmanager
    def tracking(self) -> Iterator[None]:
        """Register connections opened inside. A `shut_down` during the block also closes them at its end."""
        before, shutdowns = _tcp_sockets(), self._shutdowns
        try:
            yield
        finally:
            self._tracked |= _tcp_sockets() - before
            if self._shutdowns != shutdowns:
                self.shut_down()

    def shut_down(self) -> None:
        """Shut down all tracked connections, from any thread: threads that wait in a collective get an error."""
        self._shutdowns += 1
        _keep_groups()
        made, self._tracked = self._tracked, set()
        for descriptor, _ in made & _tcp_sockets():
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as link:
                if not link.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):  # gloo closes its listeners itself
                    link.shutdown(socket.SHUT_RDWR)


def _keep_groups() -> None:
    """Keep the existing groups alive beyond Python's exit, because their destructors would block it."""
    for group in list(distributed_c10d._world.pg_map):  # noqa: SLF001 - torch has no public list of its groups
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


def _tcp_sockets() -> set[tuple[int, int]]:
    """Return the TCP sockets of this process by descriptor and inode, because descriptors are reused."""
    found = set()
    for entry in _DESCRIPTORS.iterdir() if _DESCRIPTORS.is_dir() else ():
        with contextlib.suppress(OSError):  # the descriptor that listed the folder is closed by now
            of = os.fstat(int(entry.name))
            if stat.S_ISSOCK(of.st_mode) and _is_tcp(int(entry.name)):
                found.add((int(entry.name), of.st_ino))
    return found


def _is_tcp(descriptor: int) -> bool:
    with socket.socket(fileno=os.dup(descriptor)) as link:
        return link.family in (socket.AF_INET, socket.AF_INET6) and link.type == socket.SOCK_STREAM
