"""The catalog: every lab of this installation, by id."""

from __future__ import annotations

from pathlib import Path

from windlass.jobs.syntax.names import did_you_mean
from windlass.labs.errors import LabError
from windlass.labs.lab_description import LabDescription, read_description

CATALOG = Path(__file__).with_name("catalog")


def lab_ids() -> list[str]:
    """Returns the ids of all labs, in the order of the workshop. Reads no lab."""
    return [folder.name.partition("_")[0] for folder in _folders()]


def all_labs() -> list[LabDescription]:
    """Returns all labs, in the order of the workshop. Raises LabError for a folder that describes none."""
    return [read_description(folder) for folder in _folders()]


def find_lab(lab_id: str) -> LabDescription:
    """Returns a lab by its id, in either case. Raises LabError with the nearest known id."""
    wanted = lab_id.lower()
    for folder in _folders():
        if folder.name.partition("_")[0] == wanted:
            return read_description(folder)
    hint = did_you_mean(wanted, lab_ids())
    raise LabError(f"there is no lab {lab_id[:40]!r}{hint}\nwindlass lab list shows all labs")


def _folders() -> list[Path]:
    return sorted(path.parent for path in CATALOG.glob("*/lab.yaml"))
