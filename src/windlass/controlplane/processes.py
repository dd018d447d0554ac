"""Servers as child processes that the kernel kills when this process ends."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")
"""The kernel kills a child when the *thread* that started it ends: this thread lives as long as the process."""
PORTS = range(20_000, 32_000)
"""Ports below those of outgoing connections, so that a restarted server gets its own again."""


def spawn(
    command: Sequence[str | Path],
    log: Path,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Starts a program that is killed when this process ends. Its output is appended to `log`."""
    return _SPAWNER.submit(_spawn, command, log, env, folder).result()


def _spawn(
    command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None, folder: Path | None
) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=None if env is None else {**os.environ, **env},
            start_new_session=True,  # Ctrl-C is for the tests; they end their servers themselves
            preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509 - one thread starts all, and the call is a bare prctl
        )


def _die_with(parent: int) -> Callable[[], None]:
    def in_child() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the line above
            os._exit(1)

    return in_child


def free_port() -> int:
    """A port of this machine that nothing listens on. Raises OSError."""
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port in {PORTS}")


@dataclass
class Server:
    """A program that can be killed and restarted unchanged. Signals go to its process group."""

    name: str
    command: Sequence[str | Path]
    log: Path
    env: Mapping[str, str] | None = None
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the program. Raises RuntimeError if it runs already."""
        if self.process is not None:
            raise RuntimeError(f"{self.name} runs already")
        self.process = spawn(self.command, self.log, self.env)

    def kill(self) -> None:
        """Sends SIGKILL."""
        if self.process is not None:
            self._signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def stop(self, patience: float = 10.0) -> None:
        """Sends SIGTERM, and SIGKILL after `patience` seconds."""
        if self.process is not None:
            self._signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(patience)
            self.kill()

    def pause(self) -> None:
        """Sends SIGSTOP: the process is alive and silent."""
        self._signal(signal.SIGSTOP)

    def proceed(self) -> None:
        """Sends SIGCONT."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    @property
    def pid(self) -> int:
        """The process id. Raises RuntimeError if it does not run."""
        return self._started.pid

    @property
    def _started(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            raise RuntimeError(f"{self.name} does not run")
        return self.process

    def restart_if_ended(self) -> None:
        """Starts it again if it has ended by itself."""
        if self.process is not None and self.process.poll() is not None:
            self.process = None
            self.start()

    def check_running(self) -> None:
        """Raises RuntimeError with the end of its log if it has ended."""
        if self._started.poll() is not None:
            last = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
            raise RuntimeError(f"{self.name} ended with {self._started.returncode}; the end of {self.log}:\n{last}")
