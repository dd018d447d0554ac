"""Starts one rank as a process in a session of its own that dies with the supervisor."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from . import kernel


class Program(NamedTuple):
    """The program of a rank. No shell is involved."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    agent: AgentRanks | None = None
    """The ranks that the program starts, if it is an agent."""


class AgentRanks(NamedTuple):
    """The ranks of an agent, numbered from `first`. `node`: the prefix of the agent's own files."""

    node: str
    first: int
    ranks: int


class Spawner:
    """Resources shared by all starts: /dev/null, the pipe for errors of a child's start, limits to restore."""

    def __init__(self) -> None:
        self.null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._errors, self._error_pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._failed: dict[int, tuple[int, str]] = {}
        # the supervisor holds up to six files per rank; ranks get their original limit back
        self._soft, self._hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._hard, self._hard))

    def start(self, program: Program, write_ends: Sequence[int]) -> int:
        """Forks and executes; returns the pid. `write_ends`: stdout, stderr, then descriptors that stay open.

        Raises OSError if no process can be created.
        """
        stdout, stderr, *inherited = write_ends
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            for descriptor in inherited:
                os.set_inheritable(descriptor, True)
            self._execute(program, stdout, stderr, parent)
        return pid

    def failure(self, pid: int) -> tuple[int, str] | None:
        """Returns (errno, "chdir" or "exec") of a child that could not start; known once the child can be reaped."""
        try:
            while errors := os.read(self._errors, 65536):
                for line in errors.decode().splitlines():
                    child, errno, step = line.split()
                    self._failed[int(child)] = (int(errno), step)
        except BlockingIOError:
            pass
        return self._failed.pop(pid, None)

    def _execute(self, program: Program, stdout: int, stderr: int, parent: int) -> NoReturn:
        step = "fork"
        try:
            os.setsid()
            kernel.die_with_parent(parent)
            for target, source in enumerate((self.null, stdout, stderr)):
                os.dup2(source, target)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores these two signals, and that is inherited
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_NOFILE, (self._soft, self._hard))
            step = "chdir"
            os.chdir(program.cwd)
            step = "exec"
            os.execvpe(program.argv[0], program.argv, program.env)  # noqa: S606 - no shell, on purpose
        except OSError as error:
            os.write(self._error_pipe, f"{os.getpid()} {error.errno} {step}\n".encode())
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)
        finally:
            os._exit(126)
