"""Starts a lab: its folder with the broken state, its environment, and what `setup.sh` brings onto the cluster."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from windlass.labs.errors import LabError, LabStateError
from windlass.labs.lab_description import LabDescription
from windlass.labs.lab_environment import environment_file
from windlass.labs.lab_folders import LabFolders
from windlass.labs.lab_namespace import create_namespace
from windlass.labs.lab_needs import check_cluster, check_needs
from windlass.labs.lab_reset import reset_lab
from windlass.labs.lab_script import run_script
from windlass.labs.progress import Report

ENVIRONMENT = "env"


@dataclass(frozen=True, slots=True)
class StartedLab:
    """The outcome of a start. `was_started`: the lab was started before, and its files stay.

    `restored`: files of the start that were missing, and are there again.
    """

    folder: Path
    was_started: bool
    restored: tuple[str, ...]


def start_lab(lab: LabDescription, folders: LabFolders, report: Report, *, fresh: bool = False) -> StartedLab:
    """Starts a lab, or continues a started one. `fresh`: resets it first. Raises LabError, LabStateError."""
    lab_id, folder = lab.facts.id, folders.learner(lab.facts.id)
    # 1. everything that the lab needs is here
    check_needs(lab)
    check_cluster(lab, folders)
    if fresh and folders.own(lab_id).is_dir():
        reset_lab(lab, folders, report)
    was_started = folders.is_started(lab_id)
    if not folders.own(lab_id).is_dir() and folder.is_dir() and any(folder.iterdir()):
        raise LabStateError(f"{folder} exists and is no folder of the workshop\nmove it away, or set WINDLASS_LABS")
    # 2. the folders, and the namespace on the cluster
    try:
        folders.state(lab_id).mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        is_new = lab.needs_cluster and create_namespace(folders, lab_id)
        # 3. files: those of the learner stay
        restored = copy_missing(lab.folder / "start", folder)
        (folder / ENVIRONMENT).write_text(environment_file(lab, folders), encoding="utf-8")
    except OSError as error:
        raise LabError(f"{error.filename}: {error.strerror}\nmake it writable, or set WINDLASS_LABS") from None
    # 4. the broken state, once in a namespace
    setup = lab.folder / "setup.sh"
    if setup.is_file() and (is_new or not was_started):
        run_script(setup, lab, folders)
    folders.ready_mark(lab_id).touch()
    return StartedLab(folder, was_started, restored if was_started else ())


def copy_missing(source: Path, target: Path) -> tuple[str, ...]:
    """Copies the files that the target lacks, and returns their names."""
    copied = []
    for path in sorted(source.rglob("*")) if source.is_dir() else ():
        name = path.relative_to(source)
        if path.is_file() and "__pycache__" not in name.parts and not (target / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target / name)
            copied.append(str(name))
    return tuple(copied)
