"""Memberships that a controller publishes: in a file, which is read whenever it changes, or over a Unix socket.

A file is put in place whole (written beside it and renamed). The agent ends when its ranks do, and its exit code says
how: whoever started it decides what comes next. Over a socket (one `windlass.wire` message a line) the agent stays: it
says `Verdict` when its ranks have ended, and does what the next `Membership` says, until the controller hangs up.
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from typing import Callable

from windlass import wire
from windlass.agent import crew, sockets, story
from windlass.agent.local import Broken, Ended, Gone, Local, Report
from windlass.agent.loop import Loop

_LOOK = 0.2
_SOCKET = "unix:"


class Published:
    """`close` is called once, with the run's end. `node`: by what name this agent finds itself among members."""

    def __init__(self, loop: Loop, where: str, node: str, local: Local, close: Callable[[crew.Close], None]) -> None:
        self._loop, self._node, self._local, self._close = loop, node, local, close
        self._link: socket.socket | None = None
        self._path = Path(where)
        self._seen: tuple[int, int] = (0, 0)
        self._unread = b""
        self._current = 0
        self._next: wire.Membership | None = None
        self._ending: crew.Close | None = None
        if where.startswith(_SOCKET):
            self._link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._link.connect(where[len(_SOCKET) :])

    def begin(self) -> None:
        """Follow what is published."""
        if self._link is not None:
            self._loop.watch(self._link, self._read)
        else:
            self._look()

    def hear(self, report: Report) -> None:
        """How the ranks of this node do."""
        if isinstance(report, Gone):
            self._gone()
        elif isinstance(report, Ended):
            self._say(wire.Verdict(report.generation, "done"))
            if self._link is None:
                self._close(crew.Close(0, "all ranks of this node have ended well"))
        elif isinstance(report, Broken):
            self._broken(report)

    def leave(self) -> None:
        """Hang up on the controller."""
        if self._link is not None:
            self._link.close()

    def _broken(self, report: Broken) -> None:
        self._say(wire.Verdict(report.generation, "failed", code=report.code, reason=report.why))
        if self._link is None:
            self._ending = crew.Close(report.code, report.why)
        self._local.halt(report.generation, report.why)

    def _gone(self) -> None:
        if self._ending is not None:
            self._close(self._ending)
        elif self._next is not None:
            membership, self._next = self._next, None
            self._start(membership)
        else:
            self._say(wire.Verdict(self._current, "stopped"))

    def _look(self) -> None:
        self._loop.after(_LOOK, self._look)
        with contextlib.suppress(OSError):
            found = self._path.stat()
            if (found.st_mtime_ns, found.st_ino) != self._seen:
                self._seen = (found.st_mtime_ns, found.st_ino)
                self._take(self._path.read_bytes())

    def _read(self) -> None:
        assert self._link is not None  # noqa: S101 - it is being watched
        data = self._link.recv(65536)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._take(line)
        if not data:
            self._loop.forget(self._link)
            self._close(crew.Close(0, "the controller has hung up"))

    def _take(self, data: bytes) -> None:
        try:
            said = wire.decode(data)
        except ValueError as wrong:
            story.say(f"{wire.MEMBERSHIP}: {wrong}")
            return
        if isinstance(said, wire.Membership) and said.generation > self._current:
            self._current = said.generation
            self._next = said
            self._local.halt(self._local.generation, f"generation {said.generation} is published", planned=True)

    def _start(self, membership: wire.Membership) -> None:
        names = [member.node for member in membership.members]
        me = membership.me if membership.me >= 0 else names.index(self._node) if self._node in names else -1
        if me < 0:
            story.say(f"generation {membership.generation} has no ranks on {self._node}: waiting for the next")
            return
        self._local.start(membership._replace(me=me), sockets.listen("", membership.port) if me == 0 else None)

    def _say(self, verdict: wire.Verdict) -> None:
        if self._link is not None:
            with contextlib.suppress(OSError):
                self._link.sendall(wire.encode(verdict) + b"\n")


def node_name() -> str:
    """What this node is called: by the controller that started the agent, else by itself."""
    return os.environ.get(wire.NODE) or socket.gethostname()
