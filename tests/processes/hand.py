"""A controller's end of the line, by hand: what is said to a supervisor is written out, what it reports is kept."""

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
    """A rank's command: this program, without site packages, so that it starts fast."""
    return [sys.executable, "-I", "-S", "-c", text]


class Hand:
    """`gang` and the others speak of generation 1 of a job unless told otherwise."""

    def __init__(self, state: Path, *, linger: float | None = 2.0) -> None:
        self.paths = paths.prepare(state)
        self.linger = linger
        self.reports: list[Report] = []
        self.held = folder_lock.acquire(self.paths, "run")
        self.watchdog = 0
        self.connect()

    # --- speaking ------------------------------------------------------------------------------------

    def connect(self) -> None:
        link = start_supervisor(self.paths)
        self.watchdog = link.watchdog or self.watchdog
        self.socket: socket.socket = link.socket
        self.socket.settimeout(strays.PATIENCE)
        self.unread = b""
        self.say(do="hello", linger=self.linger, offset=0)
        self.hello = self.hear()
        self.supervisor = int(self.hello["supervisor"].split(":")[0])

    def say(self, **message: Any) -> None:
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
        whose = [owner, client.started] if client else None
        what = {"job": job, "generation": generation, "logs": logs, "cwd": cwd, "owner": whose}
        self.say(do="spawn", **what, env={**marks, **env}, ranks=ranks)

    def stop(self, job: str = "job-1", generation: int = 1, grace: int = 10_000) -> None:
        self.say(do="stop", job=job, generation=generation, grace=grace)

    # --- hearing -------------------------------------------------------------------------------------

    def hear(self) -> Report:
        """The next report; raises EOFError when the supervisor is gone."""
        while b"\n" not in self.unread:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError
            self.unread += data
        line, self.unread = self.unread.split(b"\n", 1)
        report: Report = json.loads(line)
        self.reports.append(report)
        return report

    def hear_the_end(self) -> None:
        """Whatever comes, until the supervisor is gone."""
        with suppress(EOFError):
            while True:
                self.hear()

    def until(self, tell: str, **fields: Any) -> Report:
        """The first report of this kind with these fields, heard already or still to come."""

        def fits(report: Report) -> bool:
            return report["tell"] == tell and all(report.get(key) == value for key, value in fields.items())

        for report in self.reports:
            if fits(report):
                return report
        while not fits(report := self.hear()):
            pass
        return report

    def pid(self, rank: int = 0, job: str = "job-1", generation: int = 1) -> int:
        return int(self.until("started", job=job, generation=generation)["pids"][rank][0])

    def output(self, rank: int = 0, stream: str = "out", job: str = "job-1", generation: int = 1) -> str:
        """What is in the log file by now; "" if there is none."""
        file = self.paths.generation_logs(job, generation) / f"{rank}.{stream}"
        return file.read_text(errors="surrogateescape") if file.exists() else ""

    def printed(self, found: Callable[[str], bool] = bool, rank: int = 0, job: str = "job-1") -> str:
        """What the rank has printed, once it is as wanted."""
        await_that(lambda: found(self.output(rank, job=job)), "output that never came")
        return self.output(rank, job=job)

    # --- leaving -------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Hang up without a word, as a controller that is killed."""
        self.socket.close()

    def close(self) -> None:
        """End the supervisor and wait for it."""
        with suppress(OSError):
            self.say(do="end")
            self.hear_the_end()
        self.socket.close()
        self.held.release()
        if self.watchdog:
            reap(self.watchdog)


@contextmanager
def hand(state: Path, **options: Any) -> Iterator[Hand]:
    made = Hand(state, **options)
    try:
        yield made
    finally:
        made.close()


def await_that(condition: Callable[[], object], failure: str) -> None:
    """Wait for a condition; fail with this text when it does not come."""
    until = time.monotonic() + strays.PATIENCE
    while not condition():
        assert time.monotonic() < until, failure
        time.sleep(0.005)


def is_gone(pid: int) -> bool:
    """No such process, or one that only waits to be reaped."""
    seen = proc.stat(pid)
    return seen is None or seen.state in "ZX"


def reap(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)
