"""Exit codes of verbs. They are stable because scripts rely on them; docs/reference/exit-codes.md is this table."""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType

from windlass.server.errors import ErrorCode


class ExitCode(IntEnum):
    """Exit codes of verbs. Codes from 64 follow sysexits.h, codes from 128 follow shells."""

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
        ExitCode.OK: "The verb did its work; for `run`, the job succeeded.",
        ExitCode.FAILED: "The job failed without the exit code of a rank. If the exit code of one rank ended the "
        "job, `run` and `alloc` exit with that code; if a signal ended it, with 128 + the signal's number. For "
        "`operator check` and `doctor`: a check failed, or logs name a cause. For `checkpoint verify`: a checkpoint is "
        "damaged, or there is none. For `lint`: an error was found. For `lab check`: something of the lab is missing.",
        ExitCode.USAGE: "The command line, the job file, the cluster file or the kubeconfig is wrong or missing; the "
        "message states the place.",
        ExitCode.REFUSED: "The job can never run here; the message names the largest gang that would fit.",
        ExitCode.NO_SUCH_JOB: "No job has this name or id, or several living jobs have this name.",
        ExitCode.WRONG_STATE: "The state of the job or of the lab does not allow this.",
        ExitCode.NO_DAEMON: "No daemon runs that the verb needs (on a cluster: no operator), "
        "or it stopped before it answered.",
        ExitCode.SOFTWARE: "A defect of Windlass; the message names the file with the details.",
        ExitCode.STATE_UNUSABLE: "The state folder or the checkpoint storage cannot be created or used: not writable, "
        "damaged, not answering, its disk is full, or other users can open the state folder.",
        ExitCode.BUSY: "Another process controls the state folder. For `network test`: no nodes were free "
        "within `--timeout`.",
        ExitCode.NOT_ALLOWED: "Another user runs the daemon of the folder; on a cluster, you lack the permission.",
        ExitCode.CANCELLED: "The job was cancelled (Ctrl-C, `windlass cancel`, its terminal was closed), "
        "or the verb stopped following it and left it to the daemon.",
    }
)

OF_ERROR = MappingProxyType(
    {
        ErrorCode.BAD_REQUEST: ExitCode.USAGE,
        ErrorCode.NOT_ALLOWED: ExitCode.NOT_ALLOWED,
        ErrorCode.NOT_AUTHENTICATED: ExitCode.NOT_ALLOWED,
        ErrorCode.NO_SUCH_JOB: ExitCode.NO_SUCH_JOB,
        ErrorCode.WRONG_STATE: ExitCode.WRONG_STATE,
        ErrorCode.REFUSED: ExitCode.REFUSED,
        ErrorCode.BUSY: ExitCode.BUSY,
        ErrorCode.DISK: ExitCode.STATE_UNUSABLE,
        ErrorCode.NO_DAEMON: ExitCode.NO_DAEMON,
        ErrorCode.GONE: ExitCode.NO_DAEMON,
        ErrorCode.INTERNAL: ExitCode.SOFTWARE,
    }
)
"""Error code of the API → exit code."""


def reference() -> str:
    """Returns the whole text of docs/reference/exit-codes.md."""
    rows = "\n".join(f"| {code.value} | {MEANING[code]} |" for code in ExitCode)
    return (
        "# Exit codes of `windlass`\n\n"
        "For scripts that call `windlass`. A code never changes its meaning. An error is one line on stderr; the line "
        "after it states the fix.\n\n"
        f"| code | meaning |\n|---|---|\n{rows}\n\n"
        "The exit code of a job takes precedence: `windlass run -- sh -c 'exit 3'` exits with 3. Use "
        "`windlass status JOB -o json` to tell the exit code of a rank from one of this table.\n"
        "Of several jobs, `run` exits with the code of the first one that failed, in the order of their submission: of "
        "an array, the failed\nmember with the lowest index, whichever member ended first.\n\n"
        "The verbs with the names of Slurm's commands (`sbatch`, `squeue` and the others) exit with 1 after any error, "
        "as those commands do.\n"
    )
