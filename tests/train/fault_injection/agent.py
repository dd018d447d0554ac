"""`windlass agent` above a run with injected faults: its console, with the time of each line, and its ranks."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from forked_ranks import agent_environment

_SCRIPT = Path(__file__).with_name("gpt_script.py")
_HANG = "factor=8,floor=2.5,initial=15"
_STEP = re.compile(r"step (\d+): (-?0x\S+)")
_RANK = re.compile(r"rank (\d+) is (\d+)")


class Line(NamedTuple):
    """A line of the console. `at`: seconds of the monotonic clock."""

    at: float
    text: str


class Agent:
    """One process of the agent, from its start to its end."""

    def __init__(self, mesh: str, ranks: int, place: str, steps: int, step_limit: Path) -> None:
        command = [sys.executable, "-m", "windlass.agent", f"--nproc-per-node={ranks}", "--max-restarts=1000"]
        self.process = subprocess.Popen(
            [*command, f"--hang={_HANG}", _SCRIPT, mesh, place, str(steps), step_limit],
            env={**os.environ, **agent_environment()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[Line] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, found: Callable[[list[Line]], bool], timeout_s: float) -> bool:
        """Wait until the console matches, or ends. Returns whether it matched. Raises TimeoutError."""
        until = time.monotonic() + timeout_s
        with self._more:
            while not found(self.lines):
                if not self._reader.is_alive():
                    return False
                if time.monotonic() > until:
                    raise TimeoutError(self.text)
                self._more.wait(0.2)
        return True

    def kill_rank(self, rank: int, number: int = signal.SIGKILL) -> None:
        """Send a signal to a rank of the newest generation."""
        pids = {int(found[1]): int(found[2]) for line in self.lines if (found := _RANK.match(line.text))}
        os.kill(pids[rank], number)

    def end(self) -> int:
        """Wait for the end of the agent and its output; return its exit code."""
        code = self.process.wait(120)
        self._reader.join(30)
        return code

    def close(self) -> None:
        """Kill all remaining processes."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    @property
    def text(self) -> str:
        """All output so far."""
        return "\n".join(line.text for line in self.lines)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            with self._more:
                self.lines.append(Line(time.monotonic(), text.rstrip("\n")))
                self._more.notify_all()
        with self._more:
            self._more.notify_all()


def step_of(line: Line) -> int | None:
    """Return the step that a line reports."""
    found = _STEP.match(line.text)
    return int(found[1]) if found else None


def losses(lines: list[Line]) -> dict[int, float]:
    """Return the last computed loss of each step."""
    return {int(found[1]): float.fromhex(found[2]) for line in lines if (found := _STEP.match(line.text))}
