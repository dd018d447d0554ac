"""The connections of process groups, which can be cut: gloo hears of a killed peer at once, of a silent one never.

`abort` of gloo's groups does not wake up who waits in a collective (torch 2.13); an end of its connections does, but in
one case. A message that could not be written at once, as its receiver has gone or is slow, is forgotten when the
connection ends (`signalException` of gloo's pairs over TCP passes it by), and a thread of gloo's waits for it until a
timeout. So groups whose connections are cut are never freed, as that waits for their threads; and a rank that does not
come out of a collective is started anew by its agent.
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

_OPEN = Path("/proc/self/fd")


class Connections:
    """Those that were made while `noted` was on. Without /proc there are none, and nothing is cut."""

    def __init__(self) -> None:
        self._made: set[tuple[int, int]] = set()
        self._cuts = 0

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """What is opened inside belongs to process groups; a cut that comes meanwhile is a cut of that too."""
        before, cuts = _sockets(), self._cuts
        try:
            yield
        finally:
            self._made |= _sockets() - before
            if self._cuts != cuts:
                self.cut()

    def cut(self) -> None:
        """End them all, from whatever thread: whoever waits in a collective gets an error."""
        self._cuts += 1
        _keep_groups()
        made, self._made = self._made, set()
        for descriptor, _ in made & _sockets():
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as link:
                if not link.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):  # a listener's end would be gloo's
                    link.shutdown(socket.SHUT_RDWR)


def _keep_groups() -> None:
    """Have the groups that there are outlive Python: their destructors would hold it up."""
    for group in list(distributed_c10d._world.pg_map):  # noqa: SLF001 - who is left of them is nobody else's business
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


def _sockets() -> set[tuple[int, int]]:
    """TCP's, by descriptor and inode: descriptors are used again."""
    found = set()
    for entry in _OPEN.iterdir() if _OPEN.is_dir() else ():
        with contextlib.suppress(OSError):  # one that was open to list them
            of = os.fstat(int(entry.name))
            if stat.S_ISSOCK(of.st_mode) and _is_tcp(int(entry.name)):
                found.add((int(entry.name), of.st_ino))
    return found


def _is_tcp(descriptor: int) -> bool:
    with socket.socket(fileno=os.dup(descriptor)) as link:
        return link.family in (socket.AF_INET, socket.AF_INET6) and link.type == socket.SOCK_STREAM
