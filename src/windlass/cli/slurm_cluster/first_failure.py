"""The task of a job that failed first: srun ends the others by a signal, and its own exit code is the highest of all.

Source: srun of Slurm 22.05, which writes a line for each ended task and one before it ends the others.
"""

from __future__ import annotations

import os
import re
import signal
from dataclasses import replace
from pathlib import Path

from windlass.backends.local.regular_files import open_regular
from windlass.backends.slurm.job_records import SlurmJob
from windlass.wire import FIRST_SIGNAL_CODE

_TAIL = 1 << 16
"""Bytes at the end of an output in which the last attempt's failure is looked for."""
_ENDED = re.compile(r"srun: error: ([\w.-]{1,253}): tasks? ([0-9]{1,7})[0-9,-]*: (.{1,100})")
_OTHERS_END = re.compile(r"srun: .{0,40}Terminating StepId=")
_EXITED = re.compile(r"Exited with exit code ([0-9]{1,3})")
_SIGNALS = {signal.strsignal(number): FIRST_SIGNAL_CODE + number for number in signal.valid_signals()}


def hides_first_failure(job: SlurmJob) -> bool:
    """Whether the code of a job may be that of a task that srun has ended after another one failed.

    sacct prints a code from 128 on without its 128, so that 15 may be 143.
    """
    is_of_signal = job.exit_code > FIRST_SIGNAL_CODE or (job.is_accounted and job.exit_code in signal.valid_signals())
    return "FAILED" in job.states and is_of_signal and bool(job.output)


def with_first_failure(job: SlurmJob) -> SlurmJob:
    """The job with the exit code of the task that failed first; unchanged if its output does not say it."""
    found = first_failure(_tail(Path(job.output)))
    return job if found is None else replace(job, exit_code=found[0], failed_task=found[1])


def with_known_failure(job: SlurmJob) -> SlurmJob:
    """The job as `with_first_failure` returns it, if it is one of the accounting whose code may be another task's."""
    return with_first_failure(job) if job.is_accounted and hides_first_failure(job) else job


def first_failure(text: str) -> tuple[int, str] | None:
    """The exit code of the task that failed first in the last attempt, and its name; None if srun has not said it."""
    first = last = None
    for line in text.splitlines():
        if _OTHERS_END.match(line):
            first = last
        elif found := _ENDED.fullmatch(line):
            last = found
    code = None if first is None else _code_of(first[3])
    return None if first is None or code is None else (code, f"task {first[2]} on {first[1]}")


def _code_of(text: str) -> int | None:
    exited = _EXITED.fullmatch(text)
    return int(exited[1]) if exited else _SIGNALS.get(text.removesuffix(" (core dumped)"))


def _tail(path: Path) -> str:
    """The end of a file; "" if it cannot be read."""
    try:
        descriptor = open_regular(path)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(max(0, os.fstat(descriptor).st_size - _TAIL))
        return file.read(_TAIL).decode(errors="replace")
