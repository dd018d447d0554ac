"""Turns the supervisor's report of a rank's end into the core's Exit, with a description."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from windlass.core.lifecycle.events import Exit
from windlass.wire import classify_end

_CANNOT_RUN = {
    errno.ENOEXEC: "it is no program, and no script that begins with #!",
    errno.E2BIG: "its arguments and environment are too long",
}


class RankName(NamedTuple):
    """A rank as people refer to it; None: the agent of a replica's ranks."""

    rank: int | None
    role: str
    replica: int
    node: str

    def __str__(self) -> str:
        subject = "the agent" if self.rank is None else f"rank {self.rank}"
        return f"{subject} ({self.role}/{self.replica}) on {self.node}"


class RankCommand(NamedTuple):
    """The command of a rank, for explaining a failed start."""

    argv: tuple[str, ...]
    workdir: str


def exit_of(name: RankName, report: Mapping[str, Any], command: RankCommand) -> Exit:
    """Returns the Exit of a report ("code" or "signal", "error" if the rank never ran)."""
    if "signal" in report:
        number = int(report["signal"])
        return Exit(signal=number, detail=f"{name} killed by {signal_name(number)}")
    code = int(report["code"])
    if "error" in report:
        number, step = report["error"]
        return Exit(code=code, detail=f"{name}: {_start_failure(number, step, command)}")
    if phrase := classify_end(code, None).phrase:
        return Exit(code=code, detail=f"{name} {phrase} (exit code {code})")
    if 128 < code <= 128 + 64:
        return Exit(
            code=code, detail=f"{name} exited with code {code} ({signal_name(code - 128)}, according to its shell)"
        )
    return Exit(code=code, detail=f"{name} exited with code {code}")


def signal_name(number: int) -> str:
    """Returns the name of a signal: SIGKILL for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _start_failure(number: int, step: str, command: RankCommand) -> str:
    if step == "chdir":
        return f"working directory {command.workdir!r} {_fault_of_folder(number)}; name another one with --workdir"
    if step == "fork":
        return f"could not be started: {os.strerror(number)}"
    program = command.argv[0] if command.argv else ""
    if number == errno.ENOENT:
        return _not_found(program, command.workdir)
    if number == errno.EACCES:
        return f"permission denied: {program!r} is not executable"
    return f"cannot run {program!r}: {_CANNOT_RUN.get(number) or os.strerror(number)}"


def _not_found(program: str, workdir: str) -> str:
    if "/" not in program:
        return f"command not found: {program!r} in PATH"
    if Path(workdir, program).exists():
        return f"cannot run {program!r}: the interpreter in its first line does not exist"
    return f"command not found: {program!r}"


def _fault_of_folder(number: int) -> str:
    return {errno.ENOENT: "does not exist", errno.ENOTDIR: "is no folder", errno.EACCES: "may not be entered"}.get(
        number, f"cannot be used: {os.strerror(number)}"
    )
