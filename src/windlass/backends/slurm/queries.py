"""Reads jobs: those that the controller of Slurm knows, else those of its accounting."""

from __future__ import annotations

import re
from collections.abc import Sequence

from windlass.backends.slurm.accounting_records import DELIMITER, FIELDS, parse_accounting
from windlass.backends.slurm.commands import CommandRunner
from windlass.backends.slurm.errors import SlurmError, SlurmFailure
from windlass.backends.slurm.job_records import SlurmJob, parse_jobs

NO_ACCOUNTING = "this Slurm has no accounting (sacct), so that it forgets a job some minutes after its end"
_ENDED = "BF,CA,CD,DL,F,NF,OOM,PR,RQ,TO"
"""States of sacct: the ends of a job, and RQ for attempts before the last."""
_WATCHED = "%i %T %r %N"
"""Number, state, reason and nodes of a job."""


def list_jobs(run: CommandRunner) -> list[SlurmJob]:
    """All jobs that the controller knows, also those that ended some minutes ago. Raises SlurmError."""
    return parse_jobs(run(["squeue", "--json", "--states=all"]))


def watch_jobs(run: CommandRunner, numbers: Sequence[str]) -> str:
    """A text that changes with the state of each of these jobs; "" if the controller knows none. Raises SlurmError.

    The controller is asked for these jobs alone. The JSON of Slurm 22.05 has all jobs, whatever --jobs says.
    """
    words = ["squeue", "--noheader", "--states=all", f"--format={_WATCHED}", f"--jobs={','.join(numbers)}"]
    try:
        return run(words)
    except SlurmError as error:
        if error.kind is SlurmFailure.NO_SUCH_JOB:
            return ""
        raise


def ended_jobs(run: CommandRunner, number: str) -> list[SlurmJob]:
    """A job or the members of an array by the accounting. Raises SlurmError, FAILED without accounting."""
    return _read_accounting(run, f"--jobs={number}")


def recently_ended_jobs(run: CommandRunner, seconds: int) -> list[SlurmJob]:
    """The jobs of all users that ended within the last seconds, by the accounting. Raises as `ended_jobs`."""
    jobs = _read_accounting(run, f"--starttime=now-{seconds}", "--endtime=now", f"--state={_ENDED}")
    return [job for job in jobs if "REQUEUED" not in job.states]


def accounting_fault(run: CommandRunner) -> str:
    """Why ended jobs cannot be read now; "" if they can. Raises SlurmError if the controller does not answer."""
    if not has_accounting(run):
        return NO_ACCOUNTING
    try:
        ended_jobs(run, "1")
    except SlurmError as error:
        return error.message
    return ""


def has_accounting(run: CommandRunner) -> bool:
    """Whether ended jobs are kept. Raises SlurmError if the controller does not answer."""
    text = run(["scontrol", "show", "config"])
    found = re.search(r"^AccountingStorageType\s*=\s*(\S+)", text, re.MULTILINE)
    return found is not None and not found[1].endswith("/none")


def _read_accounting(run: CommandRunner, *chosen: str) -> list[SlurmJob]:
    words = ["sacct", "--allocations", "--allusers", "--duplicates", "--noheader", "--parsable2"]
    words += [f"--delimiter={DELIMITER}", f"--format={','.join(FIELDS)}", *chosen]
    try:
        return parse_accounting(run(words, "", {"SLURM_TIME_FORMAT": "%s"}))
    except SlurmError as error:
        if "accounting storage is disabled" in error.message or "sacct is not" in error.message:
            raise SlurmError(SlurmFailure.FAILED, NO_ACCOUNTING, "") from None
        raise
