"""A submission: a job, or an array of equal jobs, before the server assigns an id."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from windlass.core.model.job import ArrayMember, Job
from windlass.jobs.schedules.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Submission:
    """One job as submitted, before it has an id.

    `job.after` holds names or ids as written; the server replaces them by ids.
    """

    job: Job
    array: tuple[int, ...] = ()
    """Indexes, ascending. Empty: one job and no array."""
    array_limit: int = 0
    """Members that may run at a time; 0: all that fit."""
    source: str = ""
    """Origin of the job: a file, or the command line."""
    is_launcher_explicit: bool = field(default=False, compare=False)
    """Whether the user named a launcher; else a backend may choose a better one than plain."""
    schedule: Schedule | None = None
    """When the job is submitted again; None: it is submitted once."""


def array_members(submission: Submission, array_id: str) -> list[tuple[str, Job]]:
    """The jobs of an array with their ids, `<array id>_<index>`, in order. Empty if it is no array."""
    limit = submission.array_limit
    return [
        (f"{array_id}_{index}", replace(submission.job, array=ArrayMember(array_id, index, limit)))
        for index in submission.array
    ]
