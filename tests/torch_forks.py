"""Starts processes that need torch by forking one that has imported it: the import takes two seconds of CPU time.

Each process has its own session, environment, folder and files. `start_call` runs a function; `python` is a stand-in
for Python, with which an agent starts its fork server (PYTHON_EXEC). The workers of pytest-xdist share one server
(`torch_fork_server`), which ends with the last of them.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import forked_python
import torch_fork_server

_LINKS: list[socket.socket] = []
"""Connections that keep the server alive."""


class ForkedProcess:
    """A process that the server has forked. It is killed when this object, or the process that has it, is gone."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self.pid = int(link.recv(64))
        self._code: int | None = None

    @property
    def exitcode(self) -> int | None:
        """Exit code, negative for a signal; None while the process runs."""
        self.join(0)
        return self._code

    def join(self, timeout_s: float | None = None) -> None:
        """Waits for the end of the process."""
        if self._code is None:
            self._link.settimeout(timeout_s)
            try:
                self._code = int(self._link.recv(64))
            except (TimeoutError, BlockingIOError):
                return
            self._link.close()

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.exitcode is None

    def kill(self) -> None:
        """Kills the process, unless it has ended."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(self.pid, signal.SIGKILL)


def start_call(function: Callable[..., object], *given: object, file: int) -> ForkedProcess:
    """Starts `function(descriptor, *given)` in a process, which then exits without the end of the interpreter.

    `function` is one of a module. `file`: a file of this process; its descriptor has another number in the new one.
    """
    request = {"call": pickle.dumps((function, given)), "path": sys.path}
    return ForkedProcess(forked_python.request(_server(), request, {1: 1, 2: 2, torch_fork_server.CALL_FILE: file}))


def python() -> str:
    """Path of a program that runs a script or `-c CODE` in a forked process as Python does, and exits as it does."""
    address = Path(_server())
    program = address.with_name(f"python-{os.getpid()}")
    if not program.exists():
        command = f"{sys.executable} -S -E {forked_python.__file__} {address}"
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        program.chmod(0o755)
    return str(program)


def link_python(folder: Path) -> Path:
    """Makes a folder with the stand-in for Python under the name `python`, and returns the path of that.

    Windlass starts a job of one rank with it, and the fork server of an agent where the job has more.
    """
    folder.mkdir(exist_ok=True)
    link = folder / "python"
    link.symlink_to(python())
    return link


@functools.cache
def _server() -> str:
    """Address of the server of this test run, which serves at least as long as this process."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    folder = Path(tempfile.gettempdir(), f"windlass-torch-{run}")
    folder.mkdir(exist_ok=True)
    address = folder / "socket"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _connect(address):
            address.unlink(missing_ok=True)
            _start_server(address)
            assert _connect(address)
    return str(address)


def _connect(address: Path) -> bool:
    """Connects to the server for the lifetime of this process. False without a server, or with one that ends."""
    try:
        link = forked_python.request(str(address), {}, {})
        _LINKS.append(link)
        return bool(link.recv(64))
    except OSError:
        return False


def _start_server(address: Path) -> None:
    command = [sys.executable, "-u", "-E", torch_fork_server.__file__, str(address)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    server = subprocess.Popen(command, env=env, cwd="/", start_new_session=True, **pipes)
    assert server.stdout is not None
    with server.stdout:
        assert server.stdout.readline(), "it has failed before it listened"
