"""The variables of a lab, and the file `env` from which a shell takes them."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from windlass.labs.lab_description import LabDescription
from windlass.labs.lab_folders import ROOT_VARIABLE, LabFolders

LAB_VARIABLE = "WINDLASS_LAB"
"""Id of the lab whose `env` a shell has read."""
LAB_FILES_VARIABLE = "WINDLASS_LAB_FILES"
"""The lab's folder in the catalog, whose files a solution copies."""
UNSET = ("WINDLASS_ON",)
"""Variables of the learner that would send jobs elsewhere."""


def lab_variables(lab: LabDescription, folders: LabFolders) -> dict[str, str]:
    """Returns the variables of a lab, except PATH."""
    lab_id = lab.facts.id
    variables = {
        LAB_VARIABLE: lab_id,
        LAB_FILES_VARIABLE: str(lab.folder),
        ROOT_VARIABLE: str(folders.root),
        "WINDLASS_STATE": str(folders.state(lab_id)),
        "WINDLASS_CONFIG": str(folders.own(lab_id) / "config.yaml"),  # defaults of the learner would select a target
    }
    if lab.needs_cluster:
        variables["KUBECONFIG"] = str(folders.kubeconfig(lab_id))
    return variables


def program_folders(lab: LabDescription, folders: LabFolders) -> list[str]:
    """Returns the folders that come first in PATH: of this Python's programs, and of the cluster's."""
    cluster = [str(folders.cluster_programs)] if lab.needs_cluster else []
    return [str(Path(sys.executable).parent), *cluster]


def environment_file(lab: LabDescription, folders: LabFolders) -> str:
    """Returns the text of `env`, for every shell of POSIX."""
    paths = ":".join(program_folders(lab, folders))
    lines = [
        f"# Environment of the lab {lab.facts.id}. In its folder: . ./env",
        f"unset {' '.join(UNSET)}",
        f'export PATH={shlex.quote(paths)}:"$PATH"',
        *(f"export {name}={shlex.quote(value)}" for name, value in lab_variables(lab, folders).items()),
    ]
    return "\n".join(lines) + "\n"
