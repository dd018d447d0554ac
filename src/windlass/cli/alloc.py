"""`windlass alloc`: hold nodes while a shell or a command of the user's runs here, as Slurm's salloc does."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.cli import narrate
from windlass.cli.exit_codes import ExitCode
from windlass.cli.handing import facts, here, myself, runnable, user
from windlass.cli.interrupts import Interrupts
from windlass.cli.options import ClusterOption, GpusOption, NodesOption, takes_job_options
from windlass.cli.place import NoColorOption, StateOption, state_folder
from windlass.cli.screen import Screen
from windlass.jobs.options import RunOptions, from_options
from windlass.jobs.submission import Submission
from windlass.server.attach import LOST, Connection, differs, find_or_become
from windlass.server.errors import ApiError
from windlass.server.wanted import Wanted

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
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Hold nodes while a shell or a command of yours runs here, with the environment of the first rank.

    The nodes are given back when it ends, however it ends. Exits as the command does.
    """
    folder, screen = state_folder(state), Screen(no_color=no_color)
    command = runnable(words or [os.environ.get("SHELL") or "/bin/sh"])
    described = replace(options, name=options.name or "alloc", procs=options.procs or 1)
    held = _unforgiving(from_options(described, _HOLDER, cwd=here(), user=user()))
    wanted = Wanted(local_nodes, local_gpus, cluster)
    connection = find_or_become(folder, wanted, screen.say)
    with Interrupts() as interrupts, contextlib.closing(screen), contextlib.closing(connection):
        if ignored := differs(connection, wanted):
            screen.say(ignored)
        job_id = connection.submit([held], **facts(), owner=myself())[0]
        story = _wait_for_nodes(connection, job_id, screen, interrupts)
        if story["phase"] != "Running":
            screen.say(narrate.summary(story, "")[0])
            return narrate.result([story])
        nodes = [task["node"] for task in story["tasks"]]
        screen.say(
            f"{narrate.admitted(job_id, 1, story['admitted_at'] - story['created_at'], nodes)}; exit gives them back"
        )
        code = _run(command, _environment(story), functools.partial(_has_ended, connection, job_id), screen)
        _give_back(connection, job_id)
        return code


def _unforgiving(held: Submission) -> Submission:
    """A lost holder ends the allocation: what ran beside it was lost with it."""
    restart = replace(held.job.restart, infrastructure_limit=0)
    return replace(held, job=replace(held.job, restart=restart))


def _wait_for_nodes(connection: Connection, job_id: str, screen: Screen, interrupts: Interrupts) -> Json:
    """Until it runs, or never will. Ctrl-C gives up."""
    stream = connection.follow(job_id)
    try:
        while True:
            for event in stream.poll(_LOOK):
                if event["type"] == "verdict":
                    screen.state(narrate.waiting(event["job"]))
                elif event["type"] == "all ended" or event.get("after") == "Running":
                    return connection.job(job_id)
            if interrupts.count:
                interrupts.count = 0
                connection.act("cancel", job_id, by=interrupts.names[-1])
    finally:
        stream.close()


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


def _run(command: Sequence[str], environment: Mapping[str, str], lost: Any, screen: Screen) -> int:
    """The command in the foreground, Ctrl-C is its own. If the nodes are lost it is told by SIGHUP, then killed."""
    try:
        child = subprocess.Popen(command, env=dict(environment))
    except OSError as error:
        screen.say(f"windlass: cannot run {command[0]}: {error.strerror}")
        return ExitCode.FAILED
    told = None
    while (code := _wait(child)) is None:
        if told is None and (end := lost()):
            screen.say(f"the nodes are gone: {end['reason']}: {end['message']}")
            child.send_signal(signal.SIGHUP)
            told = time.monotonic()
        elif told is not None and time.monotonic() > told + _PATIENCE:
            child.kill()
    return code if code >= 0 else 128 - code


def _wait(child: subprocess.Popen[bytes]) -> int | None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        return child.wait(_LOOK)
    return None


def _has_ended(connection: Connection, job_id: str) -> Json | None:
    """The job, if it has ended. A daemon that is away for a while ends nothing."""
    try:
        story = connection.job(job_id)
    except ApiError as error:
        if error.code in LOST:
            return None
        raise
    return story if story["phase"] in ("Succeeded", "Failed") else None


def _give_back(connection: Connection, job_id: str) -> None:
    """Let the holders end well, by force if they do not, and wait for that."""
    with contextlib.suppress(ApiError):  # whoever controls by now gives the nodes back without us
        story = connection.job(job_id)
        for task in story["tasks"]:
            if task["pid"] and task["code"] is None and task["signal"] is None:
                _end_well(task["pid"])
        if not _ends_within(connection, job_id, _PATIENCE):
            connection.act("cancel", job_id, by="windlass alloc", now=True)
            _ends_within(connection, job_id, _PATIENCE)


def _ends_within(connection: Connection, job_id: str, seconds: float) -> bool:
    until = time.monotonic() + seconds
    with contextlib.closing(connection.follow(job_id)) as stream:
        while time.monotonic() < until:
            if any(event["type"] == "all ended" for event in stream.poll(_LOOK)):
                return True
    return False


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
