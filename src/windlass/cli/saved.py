"""Which place of checkpoints a person means: a folder, an address in an object store, or a job's."""

from __future__ import annotations

import sys
from pathlib import Path

from windlass.cli.failures import UsageError
from windlass.cli.place import state_folder
from windlass.train.checkpoint.store.places import Place, place_of
from windlass.train.checkpoint.store.posix import Folder

_ASK = "windlass logs {} --grep 'checkpoints in'"


def place_meant(text: str, state: Path | None) -> Place:
    """An address, or a folder that there is; else where the job of that name keeps its checkpoints.

    Raises UsageError where it is neither, and PlaceError for an address that is none.
    """
    place, no_job = place_of(text), ""
    if not isinstance(place, Folder) or place.path.is_dir():
        return place
    if text == place.path.name:
        from windlass.worlds.local.records import UnknownJobError  # noqa: PLC0415 - loads the database's half

        try:
            return _place_of_job(text, state)
        except UnknownJobError as error:
            no_job = f", and {error}"
    if place.path.exists():  # what it is instead is said when it is listed
        return place
    raise UsageError(
        f"there is no folder {place.text}{no_job}\n"
        f"name the folder or the address in which the run keeps them; its log tells: {_ASK.format('JOB')}"
    )


def _place_of_job(name: str, state: Path | None) -> Place:
    """Raises UnknownJobError; UsageError for a job that has none."""
    from windlass.worlds.local.checkpoints import of_jobs  # noqa: PLC0415 - loads the database's half
    from windlass.worlds.local.paths import StatePaths  # noqa: PLC0415 - as above

    kept, *others = of_jobs(StatePaths(state_folder(state)), name)
    if others:
        raise UsageError(f"{name} is an array of {len(others) + 1} jobs\nname one of them, such as {kept.job_id}")
    place = place_of(kept.place)
    if isinstance(place, Folder) and not place.path.exists():
        raise UsageError(
            f"job {kept.job_id} has no checkpoints in {place.text}\n"
            f"it has saved none yet, or its script names another place: {_ASK.format(kept.job_id)}"
        )
    print(f"checkpoints of job {kept.job_id}, in {place.text}", file=sys.stderr)
    return place
