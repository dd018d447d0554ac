"""Prints the agent's own lines about the run: one line on stderr for each event, through the one `console`."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import NamedTuple

from windlass.agent.console import Console
from windlass.wire import escape_controls

_SHELL_SIGNALS = 128
"""A shell reports a signal as this number plus the signal's."""
_STDERR = 2
console = Console()
"""The one console of this process, shared by the agent's lines and the output of ranks."""


class RestartTimes(NamedTuple):
    """Times of the stages of one restart, in seconds of the monotonic clock; 0: not yet."""

    reason: str
    failed_at: float
    detected_at: float
    stopped_at: float
    started_at: float


def print_message(text: str) -> None:
    """Prints one line."""
    console.write(_STDERR, f"windlass agent: {escape_controls(text)}\n".encode(errors="backslashreplace"))


def describe_exit(rank: int, pid: int, code: int, message: str = "") -> str:
    """The end of a rank. `message`: from its error file."""
    if code >= 0:
        return f"rank {rank} (pid {pid}) exited with {code}" + (f": {message}" if message else "")
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"rank {rank} (pid {pid}) killed by {name}"


def describe_recovery(generation: int, restart: RestartTimes) -> str:
    """The start of a generation after another one, with the duration of each stage."""
    reason, failed_at, detected_at, stopped_at, started_at = restart
    return (
        f"{reason}; generation {generation} after {started_at - failed_at:.2f} s: "
        f"detected {detected_at - failed_at:.2f}, stopped {stopped_at - detected_at:.2f}, "
        f"spawned {started_at - stopped_at:.2f}"
    )


def describe_survivors(generation: int, restart: RestartTimes, survivors: int, fresh: int) -> str:
    """The first step of a generation in which some ranks of this node were never stopped."""
    return (
        f"generation {generation} trains again after {restart.started_at - restart.failed_at:.2f} s: "
        f"{_ranks(survivors)} went on, {fresh} started anew"
    )


def describe_late_ranks(late: Sequence[int], generation: int, waited: float) -> str:
    """Survivors that have not entered a generation in time."""
    names = f"rank {late[0]} is" if len(late) == 1 else f"ranks {', '.join(map(str, late))} are"
    return f"{names} not in generation {generation} after {waited:.0f} s"


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"


def shell_exit_code(code: int) -> int:
    """A rank's code as an exit code of a process: a signal as a shell reports it."""
    return code if code >= 0 else _SHELL_SIGNALS - code
