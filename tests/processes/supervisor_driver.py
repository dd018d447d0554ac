"""Drives a supervisor in place of a controller: sends single messages and records all reports."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import strays
from windlass import wire
from windlass.backends.local import folder_lock, paths
from windlass.backends.local.supervisor import proc
from windlass.backends.local.supervisor_start import start_supervisor

Report = dict[str, Any]


def python(text: str) -> list[str]:
    """Returns a rank's command that runs this program, without site packages, so that it starts fast."""
    return [sys.executable, "-I", "-S", "-c", text]


class SupervisorDriver:
    """A connection to the supervisor of a state folder. Methods refer to generation 1 of job-1 by default."""

    def __init__(self, state: Path, *, linger: float | None = 2.0) -> None:
        self.paths = paths.prepare_folder(state)
        self.linger = linger
        self.reports: list[Report] = []
        self.held = folder_lock.acquire_lock(self.paths, "run")
        self.watchdog = 0
        self.connect()

    # --- sending -- ------------------------------------------------------------------------------------

    def connect(self) -> None:
        link = start_supervisor(self.paths)
        self.watchdog = link.watchdog or self.watchdog
        self.socket: socket.socket = link.socket
        self.socket.settimeout(strays.TIMEOUT_S)
        self.unread = b""
        self.send(do="hello", linger=self.linger, offset=0)
        self.hello = self.receive()
        self.supervisor = int(self.hello["supervisor"].split(":")[0])

    def send(self, **message: Any) -> None:
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def spawn(
        self,
        *commands: list[str],
        job: str = "job-1",
        generation: int = 1,
        cwd: str = "/",
        owner: int = 0,
        **env: str,
    ) -> None:
        marks = {
            wire.STATE_ID: paths.state_id(self.paths),
            wire.JOB_ID: job,
            wire.GENERATION: str(generation),
            "PATH": os.environ["PATH"],
        }
        ranks = [{"argv": command, "env": {"RANK": str(number)}} for number, command in enumerate(commands)]
        logs = str(self.paths.generation_logs(job, generation))
        client = proc.stat(owner) if owner else None
        client_identity = [owner, client.started] if client else None
        description = {"job": job, "generation": generation, "logs": logs, "cwd": cwd, "owner": client_identity}
        self.send(do="spawn", **{"repeated": False, **description}, env={**marks, **env}, ranks=ranks)

    def stop(self, job: str = "job-1", generation: int = 1, grace: int = 10_000) -> None:
        self.send(do="stop", job=job, generation=generation, grace=grace)

    # --- reports -- -------------------------------------------------------------------------------------

    def receive(self) -> Report:
        """Returns the next report; raises EOFError when the supervisor has ended."""
        while b"\n" not in self.unread:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError
            self.unread += data
        line, self.unread = self.unread.split(b"\n", 1)
        report: Report = json.loads(line)
        self.reports.append(report)
        return report

    def receive_all(self) -> None:
        """Receives reports until the supervisor has ended."""
        with suppress(EOFError):
            while True:
                self.receive()

    def until(self, kind: str, **fields: Any) -> Report:
        """Returns the first report of this kind with these fields, received already or awaited now."""

        def fits(report: Report) -> bool:
            return report["report"] == kind and all(report.get(key) == value for key, value in fields.items())

        for report in self.reports:
            if fits(report):
                return report
        while not fits(report := self.receive()):
            pass
        return report

    def pid(self, rank: int = 0, job: str = "job-1", generation: int = 1) -> int:
        return int(self.until("started", job=job, generation=generation)["pids"][rank][0])

    def output(self, rank: int = 0, stream: str = "out", job: str = "job-1", generation: int = 1) -> str:
        """Returns the current content of a log file; "" if there is none."""
        file = self.paths.generation_logs(job, generation) / f"{rank}.{stream}"
        return file.read_text(errors="surrogateescape") if file.exists() else ""

    def printed(self, found: Callable[[str], bool] = bool, rank: int = 0, job: str = "job-1") -> str:
        """Waits until a rank's output satisfies `found`, and returns it."""
        wait_until(lambda: found(self.output(rank, job=job)), "the expected output is missing")
        return self.output(rank, job=job)

    # --- disconnecting -------------------------------------------------------------------------------------

    def disconnect(self) -> None:
        """Closes the connection without a message, like a controller that is killed."""
        self.socket.close()

    def close(self) -> None:
        """Ends the supervisor and waits for it."""
        with suppress(OSError):
            self.send(do="end")
            self.receive_all()
        self.socket.close()
        self.held.release()
        if self.watchdog:
            reap(self.watchdog)


@contextmanager
def drive_supervisor(state: Path, **options: Any) -> Iterator[SupervisorDriver]:
    driver = SupervisorDriver(state, **options)
    try:
        yield driver
    finally:
        driver.close()


def wait_until(condition: Callable[[], object], failure: str) -> None:
    """Waits for a condition; fails with this text after a timeout."""
    until = time.monotonic() + strays.TIMEOUT_S
    while not condition():
        assert time.monotonic() < until, failure
        time.sleep(0.005)


def is_gone(pid: int) -> bool:
    """Tells whether a process has ended, reaped or not."""
    seen = proc.stat(pid)
    return seen is None or seen.state in "ZX"


def reap(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)
