"""A real PostgreSQL server for the tests: unprivileged, in a folder and on a port of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

import strays
from windlass.controlplane.processes import free_port


def programs() -> Path | None:
    """Folder of the newest installed server's programs, which Debian keeps out of PATH."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found := installed[-1:] or [Path(path) for path in [shutil.which("initdb")] if path]:
        return found[0].resolve().parent
    return None


class PostgresServer:
    """`with PostgresServer(programs) as server: psycopg.connect(server.url)`."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="windlass-postgres-"))
        self._whose: dict[str, Any] = {}
        if os.getuid() == 0:  # which the server refuses to be
            user = pwd.getpwnam("nobody")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self._whose = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self.port = free_port()
        self.url = f"postgresql://windlass:secret@127.0.0.1:{self.port}/postgres"
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        data = self.folder / "data"
        self._run("initdb", "-D", str(data), "-U", "windlass", "-A", "trust", "--no-sync")
        self.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def start(self) -> None:
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": str(self.folder), "fsync": "off"}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [self._programs / "postgres", "-D", self.folder / "data", "-p", str(self.port), *words],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self._whose,
            )
        until = time.monotonic() + strays.TIMEOUT_S
        while not self._answers():
            if time.monotonic() > until:
                self.stop()
                raise TimeoutError((self.folder / "log").read_text())
            time.sleep(0.05)

    def stop(self) -> None:
        """At once: every connection breaks."""
        assert self._server is not None
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stops all processes of the server: its connections stay open, and nothing answers."""
        assert self._server is not None
        first = self._server.pid
        self._server.send_signal(signal.SIGSTOP)
        children = [int(pid) for pid in Path(f"/proc/{first}/task/{first}/children").read_text().split()]
        try:
            _send(children, signal.SIGSTOP)
            yield
        finally:
            _send([*children, first], signal.SIGCONT)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url).close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, program: str, *words: str) -> None:
        ran = subprocess.run(
            [self._programs / program, *words],
            check=False,
            capture_output=True,
            text=True,
            cwd=self.folder,
            **self._whose,
        )
        assert ran.returncode == 0, ran.stderr


def _send(pids: Sequence[int], number: signal.Signals) -> None:
    """Sends a signal to processes, of which some may have ended."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
