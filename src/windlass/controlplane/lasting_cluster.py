"""A cluster in the background, which survives the command that starts it: `up`, `status` and `down`.

    running = up(folder, LastingSettings(images=["a/b:1"]), print)
    subprocess.run([folder / "bin/kubectl", "get", "nodes"], env={"KUBECONFIG": folder / "kubeconfig"})
    down(folder)

One process (`cluster_process`) holds the cluster, and all servers, nodes and containers end with it. What a killed one
has left on disk is removed by the next `up`, or by `down`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import msgspec

from . import cgroups
from .build import BuildError, find, missing
from .cluster_folder import (
    ClusterError,
    ClusterFolder,
    LastingSettings,
    Running,
    holder,
    read_facts,
    start_ticks,
    write_whole,
)
from .images import SOURCE
from .kueue import CONTROLLERS as KUEUE
from .programs import CONTROLLERS, PROGRAMS, REAL_NODES
from .real_nodes import PREFIX, missing_requirement

Report = Callable[[str], None]
"""Takes one line about what happens."""
READY_WITHIN_S = 300.0
"""Seconds from the start of the process until the cluster is ready; it takes a tenth of it on two cores."""
ENDED_WITHIN_S = 40.0
"""Seconds that the process gets to end after SIGTERM."""
_PAUSE_S = 0.05


class LastingState(StrEnum):
    """State of a cluster in the background."""

    DOWN = "down"
    STARTING = "starting"
    READY = "ready"
    KILLED = "killed"
    """The process has ended without an order, and left files."""


@dataclass(frozen=True, slots=True)
class LastingStatus:
    """State of a cluster, and what is known of it. `step`: the last line of a start that goes on."""

    state: LastingState
    running: Running | None = None
    pid: int | None = None
    step: str = ""


def up(root: Path, settings: LastingSettings, report: Report) -> Running:
    """Starts a cluster in the background and waits until it is ready. Raises ClusterError.

    `report` gets a line for each step. Ctrl-C ends the start and everything that was started.
    """
    folder = ClusterFolder(root.absolute())
    # 1. one cluster in a folder
    _refuse_second(folder)
    # 2. real nodes where this machine has what they need
    settings = _with_nodes(settings, report)
    # 3. the programs, built once
    _find_programs(settings, report)
    # 4. the process that holds the cluster
    folder.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _clear(folder):
        report("removed what a killed cluster has left")
    write_whole(folder.settings, msgspec.json.encode(settings))
    process = _start_process(folder)
    # 5. its steps, until it is ready
    try:
        return _until_ready(folder, process, report)
    except BaseException:
        _end(process.pid, folder)
        raise


def status(root: Path) -> LastingStatus:
    """State of the cluster in a folder."""
    folder = ClusterFolder(root.absolute())
    pid, running = holder(folder), read_facts(folder)
    if pid is None:
        left = folder.servers.is_symlink() or running is not None
        return LastingStatus(LastingState.KILLED if left else LastingState.DOWN)
    if running is None or running.pid != pid:
        return LastingStatus(LastingState.STARTING, pid=pid, step=_last_line(folder.log))
    return LastingStatus(LastingState.READY, running, pid)


def down(root: Path) -> bool:
    """Ends the cluster in a folder and removes its files. Returns whether there was one. Raises ClusterError."""
    folder = ClusterFolder(root.absolute())
    pid = holder(folder)
    if pid is not None:
        _end(pid, folder)
    return _clear(folder) or pid is not None


def _refuse_second(folder: ClusterFolder) -> None:
    found = status(folder.root)
    if found.state is LastingState.READY:
        raise ClusterError(f"the cluster in {folder.root} is up already (pid {found.pid})")
    if found.state is LastingState.STARTING:
        raise ClusterError(f"the cluster in {folder.root} is being started by pid {found.pid}: {found.step}")


def _with_nodes(settings: LastingSettings, report: Report) -> LastingSettings:
    """Decides about real nodes, and tells why they are fake. Raises ClusterError."""
    if sys.platform != "linux":
        raise ClusterError("a cluster on this machine needs Linux")
    if settings.real is False:
        report("fake nodes, as requested: pods are Running on them, and no container runs")
        return settings
    lacking = missing_requirement()
    if lacking and settings.real:
        raise ClusterError(lacking)
    if lacking:
        report(f"fake nodes: pods are Running on them, and no container runs ({lacking})")
    return replace(settings, real=not lacking)


def _find_programs(settings: LastingSettings, report: Report) -> None:
    names = [*(REAL_NODES if settings.real else CONTROLLERS), "kubectl", *(KUEUE if settings.kueue else ())]
    try:
        for name in sorted(missing(names), key=list(PROGRAMS).index):
            report(f"{name} is built from its source, once on this machine")
            find(name)
    except BuildError as failed:
        raise ClusterError(str(failed)) from failed


def _start_process(folder: ClusterFolder) -> subprocess.Popen[bytes]:
    """Starts the process in a session of its own, so that it survives the terminal."""
    path = os.pathsep.join(filter(None, (str(SOURCE), os.environ.get("PYTHONPATH"))))
    with folder.log.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "windlass.controlplane.cluster_process", folder.root],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )


def _until_ready(folder: ClusterFolder, process: subprocess.Popen[bytes], report: Report) -> Running:
    give_up, told = time.monotonic() + READY_WITHIN_S, 0
    while True:
        ended = process.poll() is not None
        lines = _lines(folder.log)
        for line in lines[told:]:
            report(line)
        told = len(lines)
        running = read_facts(folder)
        if running is not None and running.pid == process.pid:
            return running
        if ended:
            raise ClusterError(f"the cluster did not start: {_last_line(folder.log)}\nits steps are in {folder.log}")
        if time.monotonic() > give_up:
            raise ClusterError(f"the cluster is not ready after {READY_WITHIN_S:.0f} s\nits steps are in {folder.log}")
        time.sleep(_PAUSE_S)


def _end(pid: int, folder: ClusterFolder) -> None:
    """SIGTERM, then SIGKILL, which ends all servers too; then what is left on disk is removed."""
    ticks, give_up = start_ticks(pid), time.monotonic() + ENDED_WITHIN_S
    number: int = signal.SIGTERM
    while ticks and start_ticks(pid) == ticks:
        if number:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        number = signal.SIGKILL if time.monotonic() > give_up else 0
        time.sleep(_PAUSE_S)
    _clear(folder)


def _clear(folder: ClusterFolder) -> bool:
    """Removes files, and the cgroups of nodes that do not exist any more. Returns whether there were files."""
    if sys.platform == "linux" and os.geteuid() == 0:
        cgroups.remove_stale(PREFIX)
    return folder.clear()


def _lines(log: Path) -> Sequence[str]:
    """The whole lines of a log."""
    return log.read_text(errors="replace").split("\n")[:-1] if log.exists() else []


def _last_line(log: Path) -> str:
    return next((line for line in reversed(_lines(log)) if line.strip()), "no output")
