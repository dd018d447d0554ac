"""A Slurm of its own for tests, of the daemons of the workshop's one, which ends with the block that uses it."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from accounting_daemons import Accounting, end_process, skip_without_accounting

from windlass.backends.local.supervisor import proc
from windlass.labs import lab_slurm

TIMEOUT_S = 60.0
"""Timeout in seconds of waits for Slurm: it schedules every few seconds, and the machine may be busy."""


class SlurmCluster:
    """A running Slurm."""

    nodes = lab_slurm.NODES

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.accounting = Accounting(folder)

    @property
    def environment(self) -> dict[str, str]:
        """The present environment with the configuration of this Slurm."""
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def call(self, *words: str, cwd: Path | None = None) -> str:
        """Returns the output of a command of Slurm."""
        done = subprocess.run(
            words, env=self.environment, cwd=cwd, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout

    def job(self, number: str) -> dict[str, str]:
        """Returns the fields of a job as `scontrol show job` prints them."""
        text = self.call("scontrol", "show", "job", "-o", number)
        return {key: value for key, _, value in (word.partition("=") for word in text.split())}

    def wait_for(self, condition: Callable[[], bool], timeout: float = TIMEOUT_S) -> None:
        """Waits until a condition holds; else fails with the logs of the daemons."""
        end = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < end, self.logs()
            time.sleep(0.1)

    def wait_for_state(self, number: str, *states: str, timeout: float = 200) -> dict[str, str]:
        """Waits until a job has one of these states, and returns its fields."""
        self.wait_for(lambda: self.job(number)["JobState"] in states, timeout)
        return self.job(number)

    def cancel_all(self) -> None:
        """Cancels every job and waits until the nodes are free."""
        self.call("scancel", "--quiet", "--user", getpass.getuser())
        self.wait_for(lambda: not self.call("squeue", "--noheader"))

    def logs(self) -> str:
        """Returns the ends of the logs of all daemons."""
        return lab_slurm.read_logs(self.folder)


def skip_without_slurm() -> None:
    """Skips the test where Slurm is not installed."""
    if program := lab_slurm.missing_program():
        pytest.skip(f"no {program}: {lab_slurm.PACKAGES}")


@contextmanager
def slurm_cluster(*, accounting: bool = False) -> Iterator[SlurmCluster]:
    """A Slurm that ends with all its jobs when the block ends, and leaves neither processes nor files."""
    skip_without_slurm()
    if accounting:
        skip_without_accounting()
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # a short name: the path of a socket has at most 107 characters
    try:
        with ExitStack() as stack:
            cluster = SlurmCluster(folder)
            # The rendezvous port of a job is made of its number: jobs of clusters side by side differ in it.
            lab_slurm.write_files(
                folder, 1 + 100 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
            )
            stack.callback(_kill_left_processes, folder)
            daemons = lab_slurm.start_daemons(folder)
            stack.callback(end_process, next(daemons))
            if accounting:
                cluster.accounting.write_files()
                cluster.accounting.start(stack)
            for daemon in daemons:
                stack.callback(end_process, daemon)
            lab_slurm.wait_until_ready(folder)
            stack.callback(cluster.cancel_all)
            yield cluster
    finally:
        shutil.rmtree(folder)


def _kill_left_processes(folder: Path) -> None:
    """Kills processes of this Slurm that its daemons have left: those with its configuration in their environment."""
    mark = str(folder / "slurm.conf").encode()
    pids = {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()} - {os.getpid()}
    for pid in pids:
        if proc.environment(pid).get(b"SLURM_CONF") == mark:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
