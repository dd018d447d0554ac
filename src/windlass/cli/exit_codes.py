"""What a verb's exit code means: stable, for scripts rely on it. docs/reference/exit-codes.md is this table."""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType

from windlass.server.errors import Code


class ExitCode(IntEnum):
    """From 64 on by the habits of sysexits.h, from 128 on by those of shells."""

    OK = 0
    FAILED = 1
    USAGE = 2
    REFUSED = 3
    NO_SUCH_JOB = 4
    WRONG_STATE = 5
    NO_DAEMON = 69
    SOFTWARE = 70
    STATE_UNUSABLE = 74
    BUSY = 75
    NOT_ALLOWED = 77
    CANCELLED = 130


MEANING = MappingProxyType(
    {
        ExitCode.OK: "It was done; for `run`, the job succeeded.",
        ExitCode.FAILED: "The job failed, and no rank's exit code says more. Where one rank's exit code ended the "
        "job, `run` and `alloc` exit with that code, and with 128 + the number of the signal that killed it. For "
        "`operator check`: something is wrong. For `checkpoint verify`: one is damaged, or there is none.",
        ExitCode.USAGE: "The command line, the job file or the cluster file is wrong; the message says where.",
        ExitCode.REFUSED: "The job could never run here; the message names the largest gang that would fit.",
        ExitCode.NO_SUCH_JOB: "No job goes by this name or id.",
        ExitCode.WRONG_STATE: "The job is not in a state in which this can be done.",
        ExitCode.NO_DAEMON: "No daemon runs (no operator, on a cluster), or it went away before it answered.",
        ExitCode.SOFTWARE: "An error of Windlass itself; the message says where its details were written.",
        ExitCode.STATE_UNUSABLE: "The state folder, or a place of checkpoints, cannot be made or used: not writable, "
        "damaged, not answering, or its disk is full.",
        ExitCode.BUSY: "Somebody else controls the state folder.",
        ExitCode.NOT_ALLOWED: "The state folder belongs to another user; on a cluster, you have no right to do this.",
        ExitCode.CANCELLED: "The job was cancelled (Ctrl-C, `windlass cancel`, its terminal gone), "
        "or left to the daemon before its end.",
    }
)

OF_ERROR = MappingProxyType(
    {
        Code.BAD_REQUEST: ExitCode.USAGE,
        Code.NOT_ALLOWED: ExitCode.NOT_ALLOWED,
        Code.NO_SUCH_JOB: ExitCode.NO_SUCH_JOB,
        Code.WRONG_STATE: ExitCode.WRONG_STATE,
        Code.REFUSED: ExitCode.REFUSED,
        Code.DISK: ExitCode.STATE_UNUSABLE,
        Code.NO_DAEMON: ExitCode.NO_DAEMON,
        Code.GONE: ExitCode.NO_DAEMON,
        Code.INTERNAL: ExitCode.SOFTWARE,
    }
)
"""The exit code for each error of the API."""


def reference() -> str:
    """docs/reference/exit-codes.md, whole."""
    rows = "\n".join(f"| {code.value} | {MEANING[code]} |" for code in ExitCode)
    return (
        "# Exit codes of `windlass`\n\n"
        "They are stable: a code keeps its meaning. An error is one line on stderr, what to do about it beneath.\n\n"
        f"| code | meaning |\n|---|---|\n{rows}\n\n"
        "A job's own exit code wins: `windlass run -- sh -c 'exit 3'` exits with 3. Ask `windlass status JOB -o json` "
        "where the difference between a rank's code and one of these matters.\n"
    )
