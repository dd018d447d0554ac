"""Runs Slurm's client commands, and tells what their errors mean."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from windlass.backends.slurm.errors import SlurmError, SlurmFailure

_TIMEOUT_S = 90
"""Slurm itself gives up on its controller after some seconds, or a minute."""
_MAX_MESSAGE = 300
_REFUSED = "Batch job submission failed: "
CHECK_CONTROLLER = "check it with: scontrol ping; the administrator of the cluster restarts slurmctld"


_NO_CONTROLLER = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "Zero Bytes were transmitted",
    "Connection refused",
    "Unspecified error",
)
_MEANINGS = (
    (
        ("Problem talking to the database", "Sending PersistInit msg"),
        SlurmFailure.UNREACHABLE,
        "the accounting of Slurm (slurmdbd) does not answer ({})",
        "check it with: sacctmgr show cluster; the administrator of the cluster restarts slurmdbd",
    ),
    (
        _NO_CONTROLLER,
        SlurmFailure.UNREACHABLE,
        "the controller of Slurm does not answer ({})",
        CHECK_CONTROLLER,
    ),
    (
        ("Unable to process configuration file", "Could not establish a configuration source"),
        SlurmFailure.UNREACHABLE,
        "no configuration of Slurm was found ({})",
        "run this on a login node of the cluster, or name its slurm.conf in SLURM_CONF",
    ),
    (
        ("Invalid job id specified", "Invalid job array specification"),
        SlurmFailure.NO_SUCH_JOB,
        "Slurm knows no such job ({})",
        "list jobs with: windlass queue --on slurm",
    ),
    (
        ("Access/permission denied", "User's group not permitted", "Invalid account or account/partition"),
        SlurmFailure.NOT_ALLOWED,
        "Slurm does not allow it ({})",
        "choose another partition (--queue) or account, or name a job of your own",
    ),
    (
        ("unrecognized option '--json'", "serializer", "openapi"),
        SlurmFailure.FAILED,
        "Slurm prints no JSON ({})",
        "install Slurm 21.08 or newer with its plugin serializer/json",
    ),
    (
        (_REFUSED,),
        SlurmFailure.REFUSED,
        "Slurm refuses the job ({})",
        "compare the request with the limits of its partition: sinfo -o '%P %l %D %c %m %G'",
    ),
)
"""Texts of errors, their kind, the message for users and its fix. The first match counts."""


class CommandRunner(Protocol):
    """Runs one command of Slurm and returns its output."""

    def __call__(self, words: Sequence[str], text: str = "", variables: Mapping[str, str] | None = None, /) -> str:
        """`text`: the standard input. `variables`: added to the environment. Raises SlurmError."""


def run_command(words: Sequence[str], text: str = "", variables: Mapping[str, str] | None = None, /) -> str:
    """Runs a command of Slurm and returns its output. Raises SlurmError."""
    _check_configuration()
    try:
        done = subprocess.run(
            list(words),
            input=text,
            env={**os.environ, **(variables or {})},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise SlurmError(
            SlurmFailure.UNREACHABLE,
            f"{words[0]} is not on PATH",
            "run this on a login node of the cluster, or install Slurm's client commands (Debian: slurm-client)",
        ) from None
    except subprocess.TimeoutExpired:
        raise no_answer_error(f"{words[0]} has not ended for {_TIMEOUT_S} s") from None
    if done.returncode:
        raise error_of(words[0], done.stderr or done.stdout)
    return done.stdout


def _check_configuration() -> None:
    """Raises SlurmError if SLURM_CONF names no file: Slurm would look for it for a minute."""
    named = os.environ.get("SLURM_CONF")
    if named and not Path(named).is_file():
        raise SlurmError(
            SlurmFailure.UNREACHABLE,
            f"SLURM_CONF names {named}, which is no file",
            "set it to the slurm.conf of the cluster, or unset it",
        )


def error_of(program: str, stderr: str) -> SlurmError:
    """The error for what a failed command printed."""
    said = _last_line(stderr)
    for texts, kind, message, fix in _MEANINGS:
        if any(text in stderr for text in texts):
            return SlurmError(kind, message.format(said.partition(_REFUSED)[2] or said), fix)
    return SlurmError(SlurmFailure.FAILED, f"{program} failed ({said or 'it printed no reason'})")


def no_answer_error(said: str) -> SlurmError:
    """The error for a controller of Slurm that does not answer."""
    return SlurmError(SlurmFailure.UNREACHABLE, f"the controller of Slurm does not answer ({said})", CHECK_CONTROLLER)


def _last_line(text: str) -> str:
    """The last line with content, printable and of a bounded length."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return printable(lines[-1])[:_MAX_MESSAGE] if lines else ""


def printable(text: str) -> str:
    """Text of Slurm with each control character replaced."""
    return "".join(each if each.isprintable() else "?" for each in text)
