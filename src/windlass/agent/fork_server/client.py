"""The agent's end of the nursery: start it, have it fork ranks, hear how they end."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

import windlass
from windlass.agent.event_loop import EventLoop
from windlass.agent.fork_server import frames

_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); from windlass.agent.fork_server.server import main; "
    "main(sys.argv[1], int(sys.argv[2]))"
)
ROOT = str(Path(windlass.__file__).resolve().parent.parent)
"""Where this Windlass is imported from: a folder, or the one file that it is packed into."""
Tell = Callable[[dict[str, Any]], None]


class ForkServerClient:
    """Reports of the nursery go to `tell`, also {"tell": "gone"} when it ends without having been told to."""

    def __init__(self, loop: EventLoop, python: str, environment: Mapping[str, str], tell: Tell) -> None:
        self._loop, self._tell = loop, tell
        self._link, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [python, "-u", "-c", _BOOT, ROOT, str(theirs.fileno())],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is the agent's to pass on
            )
        loop.watch(self._link, self._hear)

    def run(self, number: int, argv: Sequence[str], how: str, env: Mapping[str, str], files: Sequence[int]) -> None:
        """Start a rank. `files`: stdout, stderr, and where its stacks go; still the caller's to close."""
        self._ask({"do": "run", "id": number, "argv": list(argv), "how": how, "env": dict(env)}, files)

    def store(self, number: int, listener: socket.socket) -> None:
        """Host a store on a socket that listens."""
        self._ask({"do": "store", "id": number, "port": listener.getsockname()[1]}, [listener.fileno()])

    def count(self, number: int, what: str) -> str:
        """How many ranks `gpu`, `auto`, … stand for here, as torchrun counts; or what is wrong with it."""
        answer, theirs = os.pipe()
        self._ask({"do": "count", "id": number, "what": what}, [theirs])
        os.close(theirs)
        with open(answer, "rb") as file:
            return file.read().decode()

    def signal(self, numbers: Sequence[int], what: int, *, group: bool) -> None:
        """Send a signal to ranks that live, or to them and everything they have started in their group."""
        if numbers:
            self._ask({"do": "signal", "ids": list(numbers), "signal": int(what), "group": group})

    def close(self) -> None:
        """End it, and with it everything it has forked that is still there."""
        self._loop.forget(self._link)
        self._link.close()
        self._process.wait()

    def _ask(self, message: dict[str, Any], files: Sequence[int] = ()) -> None:
        with contextlib.suppress(OSError):  # it is gone: that is heard next
            frames.send(self._link, message, files)

    def _hear(self) -> None:
        frame = frames.receive(self._link)
        if frame is None:
            self.close()
            self._tell({"tell": "gone"})
        else:
            self._tell(frame.message)
