"""`windlass alloc`: holds nodes while a shell or a command of the user runs on this machine, as Slurm's salloc does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.cli import job_messages
from windlass.cli.current_user import current_user
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.job_submission import (
    current_folder,
    local_command,
    owner_process,
    refuse_schedules,
    submission_context,
    with_network,
)
from windlass.cli.options import (
    SHIP_NEEDS_KUBERNETES,
    ClusterOption,
    GpusOption,
    NodesOption,
    PolicyOption,
    ShipOption,
    refuse_local_cluster_options,
    requested_cluster,
    takes_job_options,
)
from windlass.cli.target import resolve_context, state_folder
from windlass.cli.target_options import NamespaceOption, NoColorOption, OnOption, StateOption
from windlass.cli.terminal.interrupts import Interrupts
from windlass.cli.terminal.screen import Screen
from windlass.jobs.description.options import RunOptions, from_options
from windlass.jobs.description.submission import Submission
from windlass.server.cluster_options import ClusterOptions
from windlass.server.discovery import LOST, Connection, describe_mismatch, find_controller, find_or_start
from windlass.server.errors import ApiError

Json = dict[str, Any]
HOLDER = ("sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait")
"""Command of each replica: waits until SIGTERM, then exits with 0."""
_POLL_S = 0.2
_GRACE_S = 5.0
"""Seconds between SIGHUP and SIGKILL of a command whose nodes were lost, and between SIGTERM and cancel of holders."""

Command = Annotated[
    list[str] | None,
    typer.Argument(metavar="[-- COMMAND…]", help="Command to run here; default: your shell.", show_default=False),
]


@takes_job_options
def alloc(
    options: RunOptions,
    words: Command = None,
    local_nodes: NodesOption = None,
    local_gpus: GpusOption = None,
    cluster: ClusterOption = None,
    policy: PolicyOption = "",
    ship: ShipOption = "",
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Hold nodes while a shell or a command runs here, with the environment of the first rank.

    The nodes are released when it ends, for whatever reason. Exits with the exit code of the command. On Kubernetes
    the command runs inside the first pod.
    """
    described = replace(options, name=options.name or "alloc", procs=options.procs or 1)
    context = resolve_context(on, namespace)
    if context is not None:
        refuse_local_cluster_options(local_nodes, local_gpus, cluster, policy)
        from windlass.cli.kubernetes.allocation import allocate_pods  # noqa: PLC0415 - loads a cluster's libraries

        screen = Screen(no_color=no_color)
        return allocate_pods((context, namespace), described, HOLDER, words or [], ship, screen)
    if ship:
        raise UsageError(SHIP_NEEDS_KUBERNETES)
    command = local_command(words or [os.environ.get("SHELL") or "/bin/sh"])
    made = from_options(described, HOLDER, cwd=current_folder(), user=current_user())
    refuse_schedules([made], "windlass alloc")
    wanted = requested_cluster(local_nodes, local_gpus, cluster, policy)
    return hold_nodes(made, command, state_folder(state), wanted, Screen(no_color=no_color))


def hold_nodes(
    made: Submission,
    command: Sequence[str],
    folder: Path,
    wanted: ClusterOptions,
    screen: Screen,
    variables: Callable[[Json], Mapping[str, str]] = lambda _details: {},
) -> int:
    """Holds the nodes of a job of holders while a command runs here. Returns its exit code.

    `variables`: further ones of the command, from the details of the job.
    """
    holder = with_network(_without_restarts(made))
    with Interrupts() as interrupts, contextlib.closing(screen):
        connection = find_or_start(folder, wanted, screen.say)
        with contextlib.closing(_Allocation(folder, connection, screen, interrupts)) as allocation:
            if ignored := describe_mismatch(connection, wanted):
                screen.say(ignored)
            return allocation.run(holder, command, variables)


def _without_restarts(holder: Submission) -> Submission:
    """Disables restarts: a lost holder ends the allocation, because the work beside it was lost too."""
    restart = replace(holder.job.restart, infrastructure_limit=0)
    return replace(holder, job=replace(holder.job, restart=restart))


class _Allocation:
    """Nodes held for a command of this process. Survives a change of the controller."""

    def __init__(self, state: Path, connection: Connection, screen: Screen, interrupts: Interrupts) -> None:
        self._state = state
        self._connection = connection
        self._screen = screen
        self._interrupts = interrupts
        self._job_id = ""
        self._stream: Any = None

    def run(self, holder: Submission, command: Sequence[str], variables: Callable[[Json], Mapping[str, str]]) -> int:
        """Waits for the nodes, runs the command and releases the nodes. Returns the command's exit code."""
        self._job_id = self._connection.submit([holder], **submission_context(), owner=owner_process())[0]
        self._stream = self._connection.follow(self._job_id)
        details = self._wait_for_nodes()
        if details["phase"] != "Running":
            self._screen.say(job_messages.end_lines(details, "")[0])
            return job_messages.exit_code_of([details])
        nodes = [task["node"] for task in details["tasks"]]
        waited = details["admitted_at"] - details["created_at"]
        self._screen.say(f"{job_messages.admission_line(self._job_id, 1, waited, nodes)}; exit releases them")
        code = self._run_here(command, {**_environment(details), **variables(details)})
        with contextlib.suppress(ApiError):  # another controller releases the nodes of a lost owner
            self._release()
        return code

    def close(self) -> None:
        """Disconnects from the controller, or stops the controller in this process."""
        if self._stream is not None:
            self._stream.close()
        self._connection.close()

    def _wait_for_nodes(self) -> Json:
        """Waits until the job runs or has ended; returns its details. Ctrl-C cancels it."""
        handled = 0
        while True:
            for event in self._events(_POLL_S):
                if event["type"] == "verdict":
                    self._screen.state(job_messages.waiting_line(event["job"]))
                elif event["type"] == "all ended" or event.get("after") == "Running":
                    return self._details()
            if self._interrupts.count > handled:
                handled = self._interrupts.count
                self._connection.act("cancel", self._job_id, by=self._interrupts.names[-1])

    def _run_here(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Runs the command in the foreground; the command itself receives Ctrl-C."""
        try:
            child = subprocess.Popen(command, env=dict(environment))
        except OSError as error:
            self._screen.say(f"windlass: cannot run {command[0]}: {error.strerror}")
            return ExitCode.FAILED
        try:
            return self._supervise(child)
        except BaseException:
            child.send_signal(signal.SIGHUP)
            raise

    def _supervise(self, child: subprocess.Popen[bytes]) -> int:
        """Forwards signals until the command ends. If its nodes are lost, sends SIGHUP and after a grace SIGKILL."""
        forwarded = len(self._interrupts.names)
        hung_up_at = None
        while (code := _wait(child)) is None:
            for name in self._interrupts.names[forwarded:]:
                forwarded += 1
                if name != "Ctrl-C":
                    child.send_signal(signal.Signals[name])
            if hung_up_at is None and (end := self._end()):
                self._screen.say(f"the nodes were lost: {end['reason']}: {end['message']}")
                child.send_signal(signal.SIGHUP)
                hung_up_at = time.monotonic()
            elif hung_up_at is not None and time.monotonic() > hung_up_at + _GRACE_S:
                child.kill()
        return code if code >= 0 else 128 - code

    def _release(self) -> None:
        """Ends the holders with SIGTERM, cancels the job if they do not end, and waits for its end."""
        for task in self._details()["tasks"]:
            if task["pid"] and task["code"] is None and task["signal"] is None:
                _terminate(task["pid"])
        if not self._ends_within(_GRACE_S):
            self._connection.act("cancel", self._job_id, by="windlass alloc", now=True)
            self._ends_within(_GRACE_S)

    def _ends_within(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self._end(_POLL_S):
                return True
        return False

    def _end(self, timeout: float = 0) -> Json | None:
        """Returns the job if it has ended."""
        ends = [event["job"] for event in self._events(timeout) if event["type"] == "end"]
        return ends[0] if ends else None

    def _details(self) -> Json:
        """Returns the details of the job; waits a few seconds for the next controller if there is none."""
        until = time.monotonic() + _GRACE_S
        while True:
            try:
                return self._connection.job(self._job_id)
            except ApiError as error:
                if error.code not in LOST or time.monotonic() > until:
                    raise
            self._find_successor()

    def _events(self, timeout: float) -> list[Json]:
        """Returns new events of the job; none while there is no controller."""
        try:
            return list(self._stream.poll(timeout))
        except ApiError as error:
            if error.code not in LOST:
                raise
        self._find_successor()
        return []

    def _find_successor(self) -> None:
        """Connects to the next controller; without one, waits for one poll interval."""
        if successor := find_controller(self._state):
            try:
                stream = successor.follow(self._job_id)
            except ApiError as error:
                if error.code not in LOST:
                    raise
            else:
                self.close()
                self._connection, self._stream = successor, stream
                return
        time.sleep(_POLL_S)


def _environment(details: Json) -> dict[str, str]:
    """Returns the environment of the first rank, as /proc shows it, over that of this process."""
    pid = next(task["pid"] for task in details["tasks"] if task["rank"] == 0)
    _await_shell(pid)
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        raw = b""
    pairs = (os.fsdecode(entry).partition("=") for entry in raw.split(b"\0") if entry)
    return {**os.environ, **{name: value for name, _, value in pairs if name not in ("PWD", "SHLVL", "_")}}


def _wait(child: subprocess.Popen[bytes]) -> int | None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        return child.wait(_POLL_S)
    return None


def _terminate(pid: int) -> None:
    """Sends SIGTERM once the holder's shell has installed its trap; before that the signal would kill it."""
    _await_shell(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def _await_shell(pid: int) -> None:
    """Waits until the holder is a shell that catches SIGTERM (SigCgt in proc(5))."""
    until = time.monotonic() + _GRACE_S
    with contextlib.suppress(FileNotFoundError):
        while not _catches(pid, signal.SIGTERM) and time.monotonic() < until:
            time.sleep(0.005)


def _catches(pid: int, number: int) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (number - 1) & 1)
