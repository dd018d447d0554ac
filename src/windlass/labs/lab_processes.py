"""Processes of a lab: its jobs, the services of its state folder, and programs that run a file of the lab.

Other programs of the learner's shell, such as `tail` or an editor, are none of them.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from windlass.backends.local.supervisor import proc
from windlass.backends.local.supervisor.process_cleanup import kill
from windlass.labs.lab_folders import LabFolders

_GRACE_S = 2.0
"""Seconds between SIGTERM and SIGKILL."""
_TIMEOUT_S = 10.0
_PAUSE_S = 0.02
_STATE, _STATE_ID = b"WINDLASS_STATE", b"WINDLASS_STATE_ID"
_RUNNERS = ("sh", "bash", "dash", "munged", "slurmctld", "slurmd")
"""Programs beside Python whose arguments name what they run."""


@dataclass(frozen=True, slots=True)
class LabProcess:
    """A living process of a lab. `environment`: the initial one, by name."""

    pid: int
    command: tuple[str, ...]
    environment: dict[str, str]


def lab_processes(folders: LabFolders, lab_id: str) -> Iterator[LabProcess]:
    """Yields the living processes of a lab and their descendants.

    Never yields this process, its ancestors, and shells that own a terminal.
    """
    stats = {pid: seen for pid, seen in proc.all_stats().items() if seen.state not in "ZX"}
    excluded = proc.ancestors(os.getpid())
    excluded |= {pid for pid in stats if _owns_terminal(pid)}
    own = [pid for pid in stats if pid not in excluded and _belongs(pid, folders, lab_id)]
    for pid in dict.fromkeys([*own, *proc.descendants(own, stats)]):
        if pid not in excluded:
            environment = proc.environment(pid)
            yield LabProcess(pid, _command(pid), {os.fsdecode(k): os.fsdecode(v) for k, v in environment.items()})


def end_processes(folders: LabFolders, lab_id: str) -> int:
    """Ends every process of a lab: SIGTERM, then SIGKILL. Returns the number of the processes found at first."""
    began = time.monotonic()
    first = left = _identities(folders, lab_id)
    kill(first, signal.SIGTERM)
    while left and time.monotonic() - began < _TIMEOUT_S:
        if time.monotonic() - began > _GRACE_S:
            kill(left, signal.SIGKILL)
        time.sleep(_PAUSE_S)
        alive = {pid: started for pid, started in left.items() if proc.is_alive(pid, started)}
        left = alive | _identities(folders, lab_id)
    return len(first)


def _identities(folders: LabFolders, lab_id: str) -> dict[int, int]:
    """Returns the start times of a lab's processes by pid: they identify orphans, which are no descendants any more."""
    found = ((each.pid, proc.stat(each.pid)) for each in lab_processes(folders, lab_id))
    return {pid: seen.started for pid, seen in found if seen is not None}


def _belongs(pid: int, folders: LabFolders, lab_id: str) -> bool:
    """Whether a process is a rank of the lab's jobs, or has the lab's variables and runs a file of the lab."""
    state, environment = folders.state(lab_id), proc.environment(pid)
    if (mark := _state_id(state)) and environment.get(_STATE_ID) == mark:
        return True
    return environment.get(_STATE) == os.fsencode(state) and _runs_file(pid, folders, lab_id)


def _runs_file(pid: int, folders: LabFolders, lab_id: str) -> bool:
    """Whether a program such as Python has a file of the lab, or the lab's state folder, among its arguments."""
    program, *words = _command(pid) or ("",)
    name = Path(program).name
    if name not in _RUNNERS and not name.startswith("python"):
        return False
    start = _current_folder(pid)
    return any(_is_of_lab(start / word.rpartition("=")[2], folders, lab_id) for word in words)


def _is_of_lab(path: Path, folders: LabFolders, lab_id: str) -> bool:
    """Whether a path is the lab's state folder or a file of the lab."""
    try:
        real, is_file = path.resolve(), path.is_file()
        state, *roots = [each(lab_id).resolve() for each in (folders.state, folders.learner, folders.own)]
    except (OSError, RuntimeError):  # a name that is too long, or a loop of links
        return False
    return real == state or (is_file and any(real.is_relative_to(root) for root in roots))


def _current_folder(pid: int) -> Path:
    try:
        return Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return Path("/")


def _state_id(state: Path) -> bytes:
    """Returns the mark of ranks that were started for the state folder; empty if there were none."""
    try:
        return (state / "id").read_bytes()[:64].strip()
    except OSError:
        return b""


def _owns_terminal(pid: int) -> bool:
    """Whether a process leads the session of a terminal, as interactive shells do."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
    except OSError:
        return False
    session, terminal = int(fields[3]), int(fields[4])
    return session == pid and terminal != 0


def _command(pid: int) -> tuple[str, ...]:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return ()
    return tuple(os.fsdecode(word) for word in words)
