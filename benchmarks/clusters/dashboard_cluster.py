"""The process of `dashboard_server.py`, its CPU time and memory, and a chromium to open its pages."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("dashboard_server.py")
TICKS = os.sysconf("SC_CLK_TCK")


class DashboardCluster:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._link: str = self._read()["link"]

    def link(self) -> str:
        """A one-time link."""
        link, self._link = self._link, self._ask("link")["link"]
        return link

    def end_a_job(self) -> float:
        """Ends the oldest running job and returns when it did, in ms since the epoch."""
        return float(self._ask("end")["at"])

    def cpu_s(self) -> float:
        """CPU time of the process so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident_mb(self) -> float:
        """Resident memory of the process."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6

    def _ask(self, verb: str) -> dict[str, Any]:
        assert self._process.stdin
        self._process.stdin.write(f"{verb}\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())


@contextlib.contextmanager
def running_cluster(running: int, waiting: int) -> Iterator[DashboardCluster]:
    """A server with so many running and waiting jobs."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(PROGRAM), folder, str(running), str(waiting)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, text=True, **pipes) as process:
            try:
                yield DashboardCluster(process)
            finally:
                process.terminate()


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """A headless browser; ends the program with the reason if there is none."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - may be missing
    except ModuleNotFoundError:
        program = None
    if program is None:
        print("not measured: pages in a browser, because chromium or Python's playwright is missing")
        sys.exit(0)
    with sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        started = playwright.chromium.launch(executable_path=program, args=[*sandbox, "--disable-dev-shm-usage"])
        yield started
        started.close()


def load() -> str:
    """Load of the machine during the last minute, which a figure needs beside it."""
    return f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores"


def claim(claim: str, measured: float, unit: str, target: float, better: str = "lower") -> None:
    """Prints one claim."""
    print(json.dumps({"claim": claim, "measured": measured, "unit": unit, "target": target, "better": better}))
