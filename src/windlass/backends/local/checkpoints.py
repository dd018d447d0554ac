"""Checkpoint places of jobs whose script names none, from the variable that their ranks were given."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple

from windlass import wire
from windlass.backends.local.name_resolution import NameResolutionError, array_members, resolve
from windlass.backends.local.paths import StatePaths, state_id
from windlass.backends.local.state_reader import StateReader
from windlass.backends.local.submission_origins import environment_of
from windlass.core.model.job import Job


class CheckpointPlace(NamedTuple):
    """A job's id and its checkpoint place: an absolute path, or an address."""

    job_id: str
    place: str


def default_place(state: str, job_id: str) -> str:
    """Returns the default folder, below the state folder: job numbers are unique within a state folder."""
    return f"checkpoints/{state}/{job_id}"


def checkpoint_places(paths: StatePaths, name: str) -> list[CheckpointPlace]:
    """Returns the places of the job that a name or id means, or of an array's members. Raises NameResolutionError."""
    records = StateReader.open(paths)
    if records is None:
        raise NameResolutionError(f"no job is called {name!r}; there is none on record in {paths.root}")
    with contextlib.closing(records):
        found = resolve(records, name)
        states = [records.job(job_id) for job_id in ([found] if records.job(found) else array_members(records, found))]
        return [CheckpointPlace(state.id, _place(records, paths, state.id, state.job)) for state in states if state]


def _place(records: StateReader, paths: StatePaths, job_id: str, job: Job) -> str:
    """Returns the place that the first rank sees; it belongs to the first role."""
    place = {
        wire.CHECKPOINTS: default_place(state_id(paths), job_id),
        # without an environment of their client, ranks inherit the controller's, which is not recorded
        **(environment_of(records, job_id) or {}),
        **job.roles[0].env,
    }[wire.CHECKPOINTS]
    return place if "://" in place else str(Path(job.workdir or Path.home(), Path(place).expanduser()))
