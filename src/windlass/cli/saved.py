"""Which place of checkpoints a person means."""

from __future__ import annotations

from windlass.cli.failures import UsageError
from windlass.train.checkpoint.store.places import Place, place_of
from windlass.train.checkpoint.store.posix import Folder


def place_meant(text: str) -> Place:
    """An address, or a folder that there is.

    Raises UsageError where there is none, and PlaceError for an address that is none.
    """
    place = place_of(text)
    if isinstance(place, Folder) and not place.path.exists():
        raise UsageError(
            f"there is no folder {place.text}\n"
            "name the folder or the address in which the run keeps them; its log tells: "
            "windlass logs JOB --grep 'checkpoints in'"
        )
    return place
