"""Reads jobs: those that the controller of Slurm knows, else those of its accounting."""

from __future__ import annotations

import re
from collections.abc import Sequence

from windlass.backends.slurm.commands import CommandRunner, printable
from windlass.backends.slurm.errors import SlurmError, SlurmFailure
from windlass.backends.slurm.job_records import SlurmJob, job_name, parse_jobs

NO_ACCOUNTING = "this Slurm has no accounting (sacct), so that it forgets a job some minutes after its end"
_FIELDS = ("JobID", "User", "Partition", "State", "ExitCode", "Submit", "Start", "End", "NNodes", "NodeList", "JobName")
_WATCHED = "%i %T %r %N"
"""Number, state, reason and nodes of a job."""
_ID = re.compile(r"([0-9]{1,10})(?:_([0-9]{1,10}))?")
_CODES = re.compile(r"([0-9]{1,3}):([0-9]{1,3})")


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
    words = ["sacct", "--allocations", "--parsable2", "--noheader", f"--jobs={number}", f"--format={','.join(_FIELDS)}"]
    try:
        text = run(words, "", {"SLURM_TIME_FORMAT": "%s"})
    except SlurmError as error:
        if "accounting" in error.message or "sacct is not" in error.message:
            raise SlurmError(SlurmFailure.FAILED, NO_ACCOUNTING, "") from None
        raise
    return [job for line in text.splitlines() if (job := _accounted(line)) is not None]


def has_accounting(run: CommandRunner) -> bool:
    """Whether ended jobs are kept. Raises SlurmError if the controller does not answer."""
    text = run(["scontrol", "show", "config"])
    found = re.search(r"^AccountingStorageType\s*=\s*(\S+)", text, re.MULTILINE)
    return found is not None and not found[1].endswith("/none")


def _accounted(line: str) -> SlurmJob | None:
    """The job of a line of sacct; its name is the last field, as it may hold any character."""
    cells = line.split("|", len(_FIELDS) - 1)
    found = _ID.fullmatch(cells[0])
    if len(cells) != len(_FIELDS) or found is None:
        return None
    fields = dict(zip(_FIELDS, map(printable, cells), strict=True))
    codes = _CODES.fullmatch(fields["ExitCode"])
    return SlurmJob(
        number=int(found[1]),
        name=job_name(fields["JobName"]),
        states=frozenset({fields["State"].partition(" ")[0]}),
        array=int(found[1]) if found[2] else 0,
        index=int(found[2]) if found[2] else None,
        user=fields["User"],
        partition=fields["Partition"],
        nodes="" if fields["NodeList"] == "None assigned" else fields["NodeList"],
        node_count=max(1, _count(fields["NNodes"]) or 1),
        submitted=_count(fields["Submit"]) or 0,
        started=_count(fields["Start"]),
        ended=_count(fields["End"]),
        exit_code=int(codes[1]) if codes else 0,
        signal=int(codes[2]) if codes else 0,
    )


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 16 else None
