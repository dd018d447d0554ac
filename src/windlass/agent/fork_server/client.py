"""The agent's client of the fork server (`server`): starts it, requests processes from it, receives its events."""

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
"""Origin of this Windlass' code: a folder, or the one file that it is packed into."""


class ForkServerClient:
    """One fork server process and the connection to it. `process_id`: number that the agent gives a process.

    Passes events of the fork server to `receive`, and {"event": "gone"} when it ends without a request.
    """

    def __init__(
        self,
        loop: EventLoop,
        python: str,
        environment: Mapping[str, str],
        receive: Callable[[dict[str, Any]], None],
    ) -> None:
        self._loop, self._receive = loop, receive
        self._is_ready = False
        self._link, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [python, "-u", "-c", _BOOT, ROOT, str(theirs.fileno())],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # the agent passes Ctrl-C on
            )
        loop.watch(self._link, self._read)

    def run(self, process_id: int, argv: Sequence[str], how: str, env: Mapping[str, str], files: Sequence[int]) -> None:
        """Starts a rank. `files`: stdout, stderr and the file for its stacks; the caller closes them."""
        self._request({"request": "run", "id": process_id, "argv": list(argv), "how": how, "env": dict(env)}, files)

    def store(self, process_id: int, listener: socket.socket) -> None:
        """Starts a store on a listening socket."""
        port = listener.getsockname()[1]
        self._request({"request": "store", "id": process_id, "port": port}, [listener.fileno()])

    def count(self, process_id: int, option: str) -> str:
        """Number of ranks that torchrun starts for `gpu`, `auto` and so on; or the text of an error."""
        answer, theirs = os.pipe()
        self._request({"request": "count", "id": process_id, "option": option}, [theirs])
        os.close(theirs)
        with open(answer, "rb") as file:
            return file.read().decode()

    def send_signal(self, process_ids: Sequence[int], signum: int, *, group: bool) -> None:
        """Sends a signal to living processes. `group`: to all processes of their process groups."""
        if process_ids:
            self._request({"request": "signal", "ids": list(process_ids), "signal": int(signum), "group": group})

    def close(self) -> None:
        """Ends the fork server and all processes that it has forked.

        One that is not ready yet is killed: it has forked nothing, and its imports may take long.
        """
        self._loop.forget(self._link)
        self._link.close()
        if not self._is_ready:
            self._process.kill()
        self._process.wait()

    def _request(self, message: dict[str, Any], files: Sequence[int] = ()) -> None:
        with contextlib.suppress(OSError):  # the next event says that it is gone
            frames.send(self._link, message, files)

    def _read(self) -> None:
        frame = frames.receive(self._link)
        if frame is None:
            self.close()
            self._receive({"event": "gone"})
        else:
            self._is_ready = True
            self._receive(frame.message)
