"""Where a job's ranks keep checkpoints when their script names no place: what a variable of theirs says."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple

from windlass import wire
from windlass.backends.local.paths import StatePaths, state_id
from windlass.backends.local.state_reader import StateReader, UnknownJobError
from windlass.core.model.job import Job


class Kept(NamedTuple):
    """A job's id and its place: an absolute path, or an address."""

    job_id: str
    place: str


def unless_told(state: str, job_id: str) -> str:
    """A folder below the job's. Numbers of jobs are a state folder's, so its checkpoints are, too."""
    return f"checkpoints/{state}/{job_id}"


def of_jobs(paths: StatePaths, name: str) -> list[Kept]:
    """Those of the job that a name or an id means, or of each of an array's members. Raises UnknownJobError."""
    records = StateReader.open(paths)
    if records is None:
        raise UnknownJobError(f"no job is called {name!r}; there is none on record in {paths.root}")
    with contextlib.closing(records):
        found = records.resolve(name)
        states = [records.job(job_id) for job_id in ([found] if records.job(found) else records.members(found))]
        return [Kept(state.id, _place(records, paths, state.id, state.job)) for state in states if state]


def _place(records: StateReader, paths: StatePaths, job_id: str, job: Job) -> str:
    """As its first rank finds it, whose role is the first."""
    told = {
        wire.CHECKPOINTS: unless_told(state_id(paths), job_id),
        **(records.environment(job_id) or {}),  # none handed in: the controller's, which is on no record
        **job.roles[0].env,
    }[wire.CHECKPOINTS]
    return told if "://" in told else str(Path(job.workdir or Path.home(), Path(told).expanduser()))
