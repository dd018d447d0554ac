"""Runs `windlass run` and its process supervisor in this one process, and prints the path of the job in the code.

Arguments: `start`, the path from the options of the command to the start of the first rank, or `restart`, the path from
a rank's end to its next start; then the hand-overs of the path (see `code_path`). The process has no other children, as
the supervisor reaps all of them.
"""

from __future__ import annotations

import inspect
import json
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

from code_path import CodePath, trace_path
from windlass.backends.local import supervisor_start
from windlass.backends.local.launched_gang import LaunchedGang
from windlass.backends.local.supervisor import process_cleanup
from windlass.backends.local.supervisor.log_files import LogLimits
from windlass.backends.local.supervisor.supervisor import RankProcess, SupervisedGang, Supervisor
from windlass.backends.local.supervisor_client import SupervisorClient
from windlass.cli.job_follower import JobFollower
from windlass.cli.verbs import run as verb
from windlass.core.model.status import JobState
from windlass.jobs.description.options import RunOptions
from windlass.jobs.description.submission import Submission
from windlass.server.diagnosis.failure_diagnosis import FailureDiagnosis

COMMANDS = {"start": ["true"], "restart": ["sh", "-c", "until test -e {0}; do sleep 0.05; done; exit 3"]}
"""`{0}`: a file that is written once the start of the job is on disk."""
STARTS = {"start": 1, "restart": 2}
"""Number of the start at which the path ends."""


def is_the_job(value: object) -> bool:
    first = value[0] if isinstance(value, list | tuple) and value else value
    return isinstance(first, Submission | JobState | LaunchedGang | SupervisedGang | RankProcess)


class Interrupts(SimpleNamespace):
    """Stands in for those of a terminal, which only a main thread can receive."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None: ...


class Machine:
    """The calls of the operating system by which a supervisor is started, a rank starts, and its end is seen."""

    def __init__(self, which: str) -> None:
        self.which = which
        self.path: CodePath | None = None
        self.listeners: list[int] = []
        self.is_listening = threading.Event()
        self.is_over = threading.Event()
        self._starts = 0
        self._fork, self._waitpid = os.fork, os.waitpid

    def spawn_watchdog(self, _paths: object, listener: int, _arguments: list[str]) -> int:
        """Hands the socket over to the supervisor of the main thread."""
        self.listeners.append(os.dup(listener))
        self.is_listening.set()
        return 0

    def fork(self) -> int:
        pid = self._fork()
        if pid == 0:
            sys.setprofile(None)
            return pid
        self._starts += 1
        if self._starts == STARTS[self.which]:
            self.path.end()
            self.is_over.set()
        return pid

    def waitpid(self, pid: int, options: int) -> tuple[int, int]:
        ended, status = self._waitpid(pid, options)
        if ended and self.which == "restart" and self._starts == 1:
            self.path.begin()
        return ended, status


def run_verb(which: str, state: Path, codes: list[int]) -> None:
    sys.set_coroutine_origin_tracking_depth(12)
    run = inspect.getclosurevars(verb.run).nonlocals["verb"]  # without the reading of options
    words = [word.format(state / "begin") for word in COMMANDS[which]]
    try:
        codes.append(run(RunOptions(restarts=1, name="job"), words, state=state, no_color=True))
    except BaseException:  # noqa: BLE001 - whatever it is, the main thread would wait for ever
        traceback.print_exc()
        os._exit(1)


def follow_later(follow: Callable[..., int], machine: Machine, state: Path) -> Callable[..., int]:
    """Follows a job when its path is over: what shows its events is not on the path."""

    def wait_and_follow(follower: JobFollower, interrupts: Interrupts) -> int:
        while machine.which == "restart" and follower.connection.job("job")["phase"] != "Running":
            time.sleep(0.02)
        time.sleep(0.2)
        (state / "begin").touch()
        machine.is_over.wait()
        return follow(follower, interrupts)

    return wait_and_follow


def wait_for_supervisor(submit: Callable[..., Any], greeting: Callable[..., None]) -> tuple[Callable[..., Any], ...]:
    """Submits a job when the supervisor has greeted: whether a launch finds it ready does not depend on the moment."""
    is_ready = threading.Event()

    def greet(client: SupervisorClient, *message: object) -> None:
        greeting(client, *message)
        is_ready.set()

    def wait_and_submit(follower: JobFollower, *submissions: Any) -> Any:
        assert is_ready.wait(30)
        return submit(follower, *submissions)

    return wait_and_submit, greet


def main(which: str, state: str, *hand_overs: str) -> None:
    machine, codes = Machine(which), []
    supervisor_start._spawn = machine.spawn_watchdog
    process_cleanup.kill_descendants = lambda: None
    JobFollower.submit, SupervisorClient._handle_hello = wait_for_supervisor(
        JobFollower.submit, SupervisorClient._handle_hello
    )
    JobFollower.follow = follow_later(JobFollower.follow, machine, Path(state))
    FailureDiagnosis.on_commit_end = lambda _diagnosis, _changes: None  # it may end before or after the path
    verb.Interrupts = lambda: Interrupts(count=0, names=[])
    os.fork, os.waitpid = machine.fork, machine.waitpid
    with trace_path(is_the_job, hand_overs) as machine.path:
        thread = threading.Thread(target=run_verb, args=(which, Path(state), codes))
        thread.start()
        machine.is_listening.wait()
        lifeline, _held = os.pipe()
        supervisor = Supervisor(socket.socket(fileno=machine.listeners[0]), lifeline, 2.0, LogLimits(1 << 20, 2))
        supervisor.run()
        supervisor._connection.disconnect()  # as the end of its process does
        thread.join()
    path = machine.path
    found: dict[str, Any] = {"places": len(path.places), "modules": len(path.modules), "returns": path.returns}
    found |= {"names": len(path.names), "missed": sorted(path.missed), "text": repr(path), "code": codes[0]}
    found["functions"] = [place.function for place in path.places]
    sys.stdout.write(f"\n{json.dumps(found)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
