"""Finds jobs of Slurm by a number, an id of Windlass or a name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from windlass.backends.slurm.commands import CommandRunner
from windlass.backends.slurm.errors import SlurmError, SlurmFailure
from windlass.backends.slurm.job_records import SlurmJob
from windlass.backends.slurm.job_states import phase_of
from windlass.backends.slurm.queries import ended_jobs
from windlass.cli.current_user import current_user
from windlass.cli.slurm_cluster.first_failure import with_known_failure
from windlass.core.model.status import TERMINAL
from windlass.jobs.syntax.array_indexes import parse_array
from windlass.server.errors import ApiError, ErrorCode

_NUMBER = re.compile(r"(?:(.+)-)?([0-9]{1,10})(?:_([0-9]{1,10}))?")
_LIST_JOBS = "list them with: windlass queue --all --on slurm"


def find_jobs(run: CommandRunner, jobs: Sequence[SlurmJob], name: str) -> list[SlurmJob]:
    """Returns the job, or the members of the array, that a number, an id or a name means.

    `jobs`: those that the controller knows; a number that is not among them is looked up in the accounting. Of several
    jobs of one name the user's own are meant, and of these the living one. Raises ApiError NO_SUCH_JOB.
    """
    if found := _by_number(jobs, name) or _by_name(jobs, name):
        return found
    number = _NUMBER.fullmatch(name)
    if number is None:
        raise ApiError(ErrorCode.NO_SUCH_JOB, f"Slurm has no job {name[:60]!r}", _LIST_JOBS)
    key = number[2] + (f"_{number[3]}" if number[3] else "")
    try:
        ended = [job for job in ended_jobs(run, key) if number[1] in (None, job.name)]
    except SlurmError as error:
        if error.kind is SlurmFailure.UNREACHABLE:
            message = f"the controller of Slurm does not know job {name[:60]} any more, and {error.message}"
            raise ApiError(ErrorCode.NO_DAEMON, message, error.fix) from None
        message = f"the controller of Slurm does not know job {name[:60]} (any more): {error.message}"
        raise ApiError(ErrorCode.NO_SUCH_JOB, message, "see its output file, or " + _LIST_JOBS) from None
    if not ended:
        raise ApiError(ErrorCode.NO_SUCH_JOB, f"Slurm has no job {name[:60]!r}", _LIST_JOBS)
    return [with_known_failure(job) for job in ended]


def _by_number(jobs: Sequence[SlurmJob], name: str) -> list[SlurmJob]:
    """Returns the jobs of a number or an id; a waiting member of an array is a part of the array's record."""
    found = _NUMBER.fullmatch(name)
    if found is None:
        return []
    number = int(found[2])
    same = [job for job in jobs if number in (job.array or job.number, job.number) and found[1] in (None, job.name)]
    if found[3] is None:
        return same
    index = int(found[3])
    waiting = [replace(job, index=index, waiting_indexes="") for job in same if _has_waiting(job, index)]
    return [job for job in same if job.index == index] or waiting


def _has_waiting(job: SlurmJob, index: int) -> bool:
    """Whether a member is among the waiting ones of an array; assumed of a list that Slurm has cut off."""
    try:
        return index in parse_array(job.waiting_indexes)[0]
    except ValueError:
        return bool(job.waiting_indexes)


def _by_name(jobs: Sequence[SlurmJob], name: str) -> list[SlurmJob]:
    """Returns the one job or array of a name. Raises ApiError if several are alive, or several have ended."""
    user = current_user()
    anyone = [job for job in jobs if job.name == name]
    named = [job for job in anyone if job.user == user] or anyone
    living = [job for job in named if phase_of(job) not in TERMINAL]
    numbers = sorted({job.array or job.number for job in living or named})
    if len(numbers) > 1:
        ids = ", ".join(f"{name}-{number}" for number in numbers[:5])
        raise ApiError(ErrorCode.NO_SUCH_JOB, f"several jobs have the name {name}", f"name one of them: {ids}")
    return [job for job in named if (job.array or job.number) in numbers]
