"""Runs `windlass` in a process: forked with pipes, or started with pipes or in a pseudo-terminal of its own."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import cli_forks
import strays
from windlass.server.discovery import find_controller

WINDLASS = str(Path(sys.executable).with_name("windlass"))
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def environment(state: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WINDLASS_", "NO_COLOR"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "WINDLASS_STATE": str(state), "PATH": path, "TERM": "xterm", **more}


def windlass(state: Path, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a verb to its end, with pipes and without input."""
    return cli_forks.run(words, environment(state, **options.pop("env", {})), **options)


def ok(state: Path, *words: str, **options: Any) -> str:
    """Runs a verb that must succeed; returns its stdout."""
    ran = windlass(state, *words, **options)
    assert ran.returncode == 0, f"{words} → {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    assert "Traceback" not in ran.stderr, ran.stderr
    return ran.stdout


def facts(state: Path, *words: str) -> Any:
    """Returns the answer of a verb with -o json."""
    return json.loads(ok(state, *words, "-o", "json"))


def start(state: Path, *words: str, **options: Any) -> subprocess.Popen[str]:
    """Starts a verb with pipes."""
    env = environment(state, **options.pop("env", {}))
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
    return subprocess.Popen([WINDLASS, *words], env=env, text=True, **{**streams, **options})


def until(state: Path, condition: str, *words: str) -> Any:
    """Repeats a verb until a Python expression about its answer, `it`, is true."""
    end = time.monotonic() + strays.TIMEOUT_S
    while True:
        ran = windlass(state, *words, "-o", "json")
        it = json.loads(ran.stdout) if ran.returncode == 0 else None
        if it is not None and eval(condition, {"it": it, "all": all, "any": any, "len": len}):  # noqa: S307 - a test's
            return it
        assert time.monotonic() < end, f"never {condition}: {it} {ran.stderr}"
        time.sleep(0.05)


def phase(state: Path, job: str, wanted: str) -> Any:
    return until(state, f"it['phase'] == {wanted!r}", "status", job)


@contextmanager
def daemon(state: Path, *words: str) -> Iterator[int]:
    """Runs a daemon during the block and yields its pid; stops the daemon that runs at its end."""
    pid = start_daemon(state, *words)
    try:
        yield pid
    finally:
        windlass(state, "down", "--yes")


def start_daemon(state: Path, *words: str, **variables: str) -> int:
    """Starts a daemon with these further variables and returns its pid once it answers.

    It is forked: the start of another Python takes most of the time of `windlass up -d`.
    """
    state.parent.mkdir(parents=True, exist_ok=True)
    output = state.with_name(f"{state.name}.daemon")
    pid = cli_forks.start(["up", *words], environment(state, **variables), output)
    end = time.monotonic() + strays.TIMEOUT_S
    while (client := find_controller(state)) is None or client.facts["pid"] != pid:
        assert is_running(pid), output.read_text()
        assert time.monotonic() < end, output.read_text()
        time.sleep(0.01)
    client.close()
    return pid


def crash(state: Path) -> None:
    """Kills the daemon with SIGKILL."""
    pid = facts(state, "status")["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for_end(pid)


def wait_for_end(pid: int) -> None:
    end = time.monotonic() + strays.TIMEOUT_S
    while is_running(pid):
        assert time.monotonic() < end
        time.sleep(0.005)


def is_running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


class Terminal:
    """A verb in a pseudo-terminal of its own session. `seen` is what it has printed so far, without escapes."""

    def __init__(self, state: Path, *words: str, env: Mapping[str, str] | None = None) -> None:
        self.seen = ""
        self.raw = b""
        variables = environment(state, **(env or {}))
        self.pid, self.master = pty.fork()
        fcntl.ioctl(self.master if self.pid else 0, termios.TIOCSWINSZ, struct.pack("4H", 50, 200, 0, 0))
        if self.pid == 0:
            os.execve(WINDLASS, [WINDLASS, *words], variables)  # noqa: S606 - a terminal of its own is the point
        self.code: int | None = None

    def expect(self, pattern: str) -> re.Match[str]:
        """Waits until a pattern is on the screen."""
        end = time.monotonic() + strays.TIMEOUT_S
        while not (found := re.search(pattern, self.seen)):
            assert time.monotonic() < end, f"never saw {pattern!r} in\n{self.seen}"
            assert self._read(0.1), f"it ended without {pattern!r}:\n{self.seen}"
        return found

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def ctrl_c(self) -> None:
        self.press("\x03")

    def hang_up(self) -> None:
        """Closes the terminal."""
        os.close(self.master)
        self.master = -1

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Waits for the end; returns the exit code."""
        end = time.monotonic() + strays.TIMEOUT_S
        while self.code is None:
            if self.master >= 0:
                self._read(0.02)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
            elif self.master < 0:
                time.sleep(0.01)
            assert time.monotonic() < end, f"it does not end:\n{self.seen}"
        while self.master >= 0 and self._read(0):
            pass
        assert "Traceback" not in self.seen, self.seen
        return self.code

    def close(self) -> None:
        if self.code is None:
            with suppress(ProcessLookupError):
                self.kill()
            os.waitpid(self.pid, 0)
        if self.master >= 0:
            os.close(self.master)

    def _read(self, seconds: float) -> bool:
        """Reads output; returns whether the terminal is still open."""
        if not select.select([self.master], [], [], seconds)[0]:
            return seconds > 0
        try:
            data = os.read(self.master, 65536)
        except OSError:  # EIO: no process has the other end open
            return False
        self.raw += data
        self.seen = _ESCAPES.sub("", self.raw.decode(errors="replace")).replace("\r\n", "\n")
        return bool(data)


@contextmanager
def terminal(state: Path, *words: str, env: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    made = Terminal(state, *words, env=env)
    try:
        yield made
    finally:
        made.close()
