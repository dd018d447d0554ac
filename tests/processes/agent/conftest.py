"""Agents that a test starts and their output; none of their processes outlives the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import strays
from windlass.controlplane.processes import free_port

MARK = "WINDLASS_TEST_MARK"
SOURCE = Path(__file__).parents[3] / "src"


class Agent:
    """One that runs, and everything it and its ranks print."""

    def __init__(self, command: list[str], env: dict[str, str], cwd: Path) -> None:
        self.file = cwd / f"agent-{uuid.uuid4().hex[:6]}.out"
        with self.file.open("wb") as out:
            self.process = subprocess.Popen(
                command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )

    @property
    def output(self) -> str:
        return self.file.read_text(errors="replace")

    def until(self, text: str, times: int = 1) -> str:
        """All it has said, once this is in it."""
        await_that(lambda: self.output.count(text) >= times or self.process.poll() is not None, lambda: self.output)
        assert self.output.count(text) >= times, self.output
        return self.output

    def ends(self) -> int:
        """Its exit code."""
        try:
            return self.process.wait(strays.TIMEOUT_S * 2)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end:\n{self.output}") from None

    def pid_of(self, rank: int, generation: int = 1) -> int:
        """Of a rank whose script has said `rank R generation G pid P`."""
        begin = f"rank {rank} generation {generation} pid "
        return int(self.until(begin).partition(begin)[2].split()[0])


def await_that(condition: Callable[[], object], what: Callable[[], str]) -> None:
    until = time.monotonic() + strays.TIMEOUT_S * 2
    while not condition():
        assert time.monotonic() < until, what()
        time.sleep(0.01)


def marked(mark: str) -> dict[int, str]:
    """Every living process that was started with this mark in its environment."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
    return found


@pytest.fixture
def mark() -> Iterator[str]:
    """In the environment of whatever the test starts; nothing that has it is left afterwards."""
    name = uuid.uuid4().hex
    yield name
    until = time.monotonic() + strays.TIMEOUT_S
    while (left := marked(name)) and time.monotonic() < until:
        time.sleep(0.01)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, f"processes left behind: {left}"


@pytest.fixture
def start(tmp_path: Path, mark: str) -> Iterator[Callable[..., Agent]]:
    """Start an agent: its words, `script` being a script's text, and variables. Killed at the end if need be."""
    agents: list[Agent] = []
    base = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "OMP_NUM_THREADS": "1", MARK: mark}

    def started(*words: str, script: str = "", program: list[str] | None = None, **env: str) -> Agent:
        if script:
            (tmp_path / "script.py").write_text(script)
            words = tuple("script.py" if word == "SCRIPT" else word for word in words)
        command = program or [sys.executable, "-m", "windlass.agent"]
        variables = {**base, "PYTHONPATH": str(SOURCE), **env}
        agents.append(Agent([*command, *words], variables, tmp_path))
        return agents[-1]

    yield started
    for agent in agents:
        if agent.process.poll() is None:
            agent.process.kill()
        agent.process.wait()


@pytest.fixture
def bare(start: Callable[..., Agent], tmp_path: Path) -> Callable[..., Agent]:
    """The same where torch cannot be imported, which takes a tenth of the time."""
    (tmp_path / "no").mkdir()
    (tmp_path / "no/torch.py").write_text("raise ImportError('there is no torch here')")
    return lambda *words, **more: start(*words, **{"PYTHONPATH": f"{SOURCE}:{tmp_path}/no", **more})


@pytest.fixture
def port() -> int:
    return free_port()
