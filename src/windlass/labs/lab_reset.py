"""Resets a lab: ends its processes, removes its namespace, its folder and its state, and nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from windlass.labs.errors import LabError, LabStateError
from windlass.labs.lab_description import LabDescription
from windlass.labs.lab_folders import LabFolders
from windlass.labs.lab_namespace import delete_namespace
from windlass.labs.lab_processes import end_processes
from windlass.labs.lab_script import run_script
from windlass.labs.progress import Report


def reset_lab(lab: LabDescription, folders: LabFolders, report: Report) -> int:
    """Removes everything of a started lab; returns the number of processes that were ended.

    A failure of `cleanup.sh` or of the cluster is reported, and the reset goes on. Raises LabError if a folder stays.
    """
    lab_id = lab.facts.id
    cleanup = lab.folder / "cleanup.sh"
    if cleanup.is_file() and folders.learner(lab_id).is_dir():
        _attempt(lambda: run_script(cleanup, lab, folders), report)
    ended = end_processes(folders, lab_id)
    if folders.kubeconfig(lab_id).exists():
        _attempt(lambda: delete_namespace(folders, lab_id), report)
    remove_folder(folders.learner(lab_id))
    remove_folder(folders.own(lab_id))
    return ended


def remove_folder(folder: Path) -> None:
    """Removes a folder; of a link that took its place only the link. Raises LabError."""
    try:
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
        elif folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        raise LabError(f"{error.filename} cannot be removed: {error.strerror}\nrm -r {folder}") from None


def _attempt(work: Callable[[], object], report: Report) -> None:
    try:
        work()
    except (LabError, LabStateError) as error:
        report(f"{str(error).partition(chr(10))[0]}; the reset goes on")
