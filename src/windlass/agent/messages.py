"""What the agent says about the run: one line for each thing that happens, on stderr."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import NamedTuple

from windlass.agent.console import Console

_SPARE = 128
"""Where a shell puts signals among exit codes."""


class Recovery(NamedTuple):
    """One restart, stage by stage; moments in seconds of the same clock."""

    why: str
    happened: float
    detected: float
    stopped: float
    started: float


_STDERR = 2
console = Console()
"""The agent's own stdout and stderr: there is one of each, for all that ranks and agent say."""


def print_message(text: str) -> None:
    """One line to people."""
    console.write(_STDERR, f"windlass agent: {text}\n".encode(errors="backslashreplace"))


def describe_exit(rank: int, pid: int, code: int, said: str = "") -> str:
    """How a rank ended. `said`: what it has written down of that."""
    if code >= 0:
        return f"rank {rank} (pid {pid}) exited with {code}" + (f": {said}" if said else "")
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"rank {rank} (pid {pid}) killed by {name}"


def describe_recovery(generation: int, past: Recovery) -> str:
    """A generation that follows another one, and where the time went."""
    return (
        f"{past.why}; generation {generation} after {past.started - past.happened:.2f} s: "
        f"detected {past.detected - past.happened:.2f}, stopped {past.stopped - past.detected:.2f}, "
        f"spawned {past.started - past.stopped:.2f}"
    )


def describe_survivors(generation: int, past: Recovery, survivors: int, fresh: int) -> str:
    """All ranks of this node are in a step again, of whom some were never stopped."""
    return (
        f"generation {generation} trains again after {past.started - past.happened:.2f} s: "
        f"{_ranks(survivors)} went on, {fresh} started anew"
    )


def describe_late_ranks(late: Sequence[int], generation: int, waited: float) -> str:
    """Ranks that were to go on have not said in time that they do."""
    names = f"rank {late[0]} is" if len(late) == 1 else f"ranks {', '.join(map(str, late))} are"
    return f"{names} not in generation {generation} after {waited:.0f} s"


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"


def shell_exit_code(code: int) -> int:
    """A rank's code as a process may exit with it: a signal's as a shell says it."""
    return code if code >= 0 else _SPARE - code
