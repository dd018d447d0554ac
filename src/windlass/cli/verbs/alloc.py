"""`windlass alloc`: hold nodes while a shell or a command of the user's runs here, as Slurm's salloc does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.cli import job_messages
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.job_submission import current_folder, current_user, local_command, owner_process, submission_context
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
from windlass.cli.target import NamespaceOption, NoColorOption, OnOption, StateOption, resolve_context, state_folder
from windlass.cli.terminal.interrupts import Interrupts
from windlass.cli.terminal.screen import Screen
from windlass.jobs.description.options import RunOptions, from_options
from windlass.jobs.description.submission import Submission
from windlass.server.discovery import LOST, Connection, describe_mismatch, find_controller, find_or_start
from windlass.server.errors import ApiError

Json = dict[str, Any]
_HOLDER = ("sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait")
"""What each replica runs: nothing, until it is told to end, and then it ends well."""
_LOOK = 0.2
_PATIENCE = 5.0
"""Seconds between asking politely and not: for a command whose nodes are gone, and for holders."""

Command = Annotated[
    list[str] | None,
    typer.Argument(metavar="[-- COMMAND…]", help="What to run here; else your shell.", show_default=False),
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
    """Hold nodes while a shell or a command of yours runs here, with the environment of the first rank.

    The nodes are given back when it ends, however it ends. Exits as the command does. On Kubernetes it runs inside of
    the first pod.
    """
    described = replace(options, name=options.name or "alloc", procs=options.procs or 1)
    context = resolve_context(on, namespace)
    if context is not None:
        refuse_local_cluster_options(local_nodes, local_gpus, cluster, policy)
        from windlass.cli.kubernetes.allocation import allocate_pods  # noqa: PLC0415 - loads a cluster's libraries

        screen = Screen(no_color=no_color)
        return allocate_pods((context, namespace), described, _HOLDER, words or [], ship, screen)
    if ship:
        raise UsageError(SHIP_NEEDS_KUBERNETES)
    folder, screen = state_folder(state), Screen(no_color=no_color)
    command = local_command(words or [os.environ.get("SHELL") or "/bin/sh"])
    held = _unforgiving(from_options(described, _HOLDER, cwd=current_folder(), user=current_user()))
    wanted = requested_cluster(local_nodes, local_gpus, cluster, policy)
    with Interrupts() as interrupts, contextlib.closing(screen):
        connection = find_or_start(folder, wanted, screen.say)
        with contextlib.closing(_Allocation(folder, connection, screen, interrupts)) as allocation:
            if ignored := describe_mismatch(connection, wanted):
                screen.say(ignored)
            return allocation.run(held, command)


def _unforgiving(held: Submission) -> Submission:
    """A lost holder ends the allocation: what ran beside it was lost with it."""
    restart = replace(held.job.restart, infrastructure_limit=0)
    return replace(held, job=replace(held.job, restart=restart))


class _Allocation:
    """Nodes that are held for a command of this process, whoever controls them meanwhile."""

    def __init__(self, state: Path, connection: Connection, screen: Screen, interrupts: Interrupts) -> None:
        self._state = state
        self._connection = connection
        self._screen = screen
        self._interrupts = interrupts
        self._job_id = ""
        self._stream: Any = None

    def run(self, held: Submission, command: Sequence[str]) -> int:
        """Get the nodes, run the command, give them back. Returns the command's exit code."""
        self._job_id = self._connection.submit([held], **submission_context(), owner=owner_process())[0]
        self._stream = self._connection.follow(self._job_id)
        story = self._wait_for_nodes()
        if story["phase"] != "Running":
            self._screen.say(job_messages.end_lines(story, "")[0])
            return job_messages.exit_code_of([story])
        nodes = [task["node"] for task in story["tasks"]]
        waited = story["admitted_at"] - story["created_at"]
        self._screen.say(f"{job_messages.admission_line(self._job_id, 1, waited, nodes)}; exit gives them back")
        code = self._run_here(command, _environment(story))
        with contextlib.suppress(ApiError):  # whoever controls by now gives the nodes back without us
            self._give_back()
        return code

    def close(self) -> None:
        """Leave the controller, or leave as the controller."""
        if self._stream is not None:
            self._stream.close()
        self._connection.close()

    def _wait_for_nodes(self) -> Json:
        """Until it runs, or never will. Ctrl-C gives up."""
        heeded = 0
        while True:
            for event in self._events(_LOOK):
                if event["type"] == "verdict":
                    self._screen.state(job_messages.waiting_line(event["job"]))
                elif event["type"] == "all ended" or event.get("after") == "Running":
                    return self._story()
            if self._interrupts.count > heeded:
                heeded = self._interrupts.count
                self._connection.act("cancel", self._job_id, by=self._interrupts.names[-1])

    def _run_here(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """The command in the foreground; Ctrl-C is its own."""
        try:
            child = subprocess.Popen(command, env=dict(environment))
        except OSError as error:
            self._screen.say(f"windlass: cannot run {command[0]}: {error.strerror}")
            return ExitCode.FAILED
        try:
            return self._mind(child)
        except BaseException:
            child.send_signal(signal.SIGHUP)
            raise

    def _mind(self, child: subprocess.Popen[bytes]) -> int:
        """Until the command ends: pass signals on. If its nodes are lost it is told by SIGHUP, then killed."""
        passed_on = len(self._interrupts.names)
        told = None
        while (code := _wait(child)) is None:
            for name in self._interrupts.names[passed_on:]:
                passed_on += 1
                if name != "Ctrl-C":
                    child.send_signal(signal.Signals[name])
            if told is None and (end := self._end()):
                self._screen.say(f"the nodes are gone: {end['reason']}: {end['message']}")
                child.send_signal(signal.SIGHUP)
                told = time.monotonic()
            elif told is not None and time.monotonic() > told + _PATIENCE:
                child.kill()
        return code if code >= 0 else 128 - code

    def _give_back(self) -> None:
        """Let the holders end well, by force if they do not, and wait for that."""
        for task in self._story()["tasks"]:
            if task["pid"] and task["code"] is None and task["signal"] is None:
                _end_well(task["pid"])
        if not self._ends_within(_PATIENCE):
            self._connection.act("cancel", self._job_id, by="windlass alloc", now=True)
            self._ends_within(_PATIENCE)

    def _ends_within(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self._end(_LOOK):
                return True
        return False

    def _end(self, timeout: float = 0) -> Json | None:
        """The job, if it has ended."""
        ends = [event["job"] for event in self._events(timeout) if event["type"] == "end"]
        return ends[0] if ends else None

    def _story(self) -> Json:
        """The job, told by whoever controls now, or in a moment."""
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._connection.job(self._job_id)
            except ApiError as error:
                if error.code not in LOST or time.monotonic() > until:
                    raise
            self._ask_successor()

    def _events(self, timeout: float) -> list[Json]:
        """What happens to the job; nothing does while nobody controls."""
        try:
            return list(self._stream.poll(timeout))
        except ApiError as error:
            if error.code not in LOST:
                raise
        self._ask_successor()
        return []

    def _ask_successor(self) -> None:
        """Go on with whoever controls now; if nobody does yet, wait a little."""
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
        time.sleep(_LOOK)


def _environment(story: Json) -> dict[str, str]:
    """The first rank's environment, as the kernel shows it, over this process's own."""
    pid = next(task["pid"] for task in story["tasks"] if task["rank"] == 0)
    _await_shell(pid)
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        raw = b""
    pairs = (os.fsdecode(entry).partition("=") for entry in raw.split(b"\0") if entry)
    return {**os.environ, **{name: value for name, _, value in pairs if name not in ("PWD", "SHLVL", "_")}}


def _wait(child: subprocess.Popen[bytes]) -> int | None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        return child.wait(_LOOK)
    return None


def _end_well(pid: int) -> None:
    """SIGTERM, once the holder's shell is ready for it: before, it would die of it."""
    _await_shell(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def _await_shell(pid: int) -> None:
    """Until the holder has become its shell, and that catches SIGTERM (SigCgt in proc(5))."""
    until = time.monotonic() + _PATIENCE
    with contextlib.suppress(FileNotFoundError):
        while not _catches(pid, signal.SIGTERM) and time.monotonic() < until:
            time.sleep(0.005)


def _catches(pid: int, number: int) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (number - 1) & 1)
