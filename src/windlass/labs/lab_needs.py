"""The needs of a lab: modules and programs of this machine, and what the cluster of the workshop offers."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

from windlass.labs.cluster_requests import START_CLUSTER
from windlass.labs.errors import LabError, LabStateError
from windlass.labs.lab_description import LabDescription
from windlass.labs.lab_folders import LabFolders

_MODULES = {
    "torch": ("torch", "train"),
    "mpi": ("mpi4py", "workshop"),
    "jupyter": ("jupyterlab", "notebook"),
    "grpc": ("grpc", "workshop"),
}
"""Need → (module, the extra that installs it)."""
_PROGRAMS = {
    "slurm": ("slurmctld", "apt-get install slurmctld slurmd slurm-client munge"),
    "mpi": ("mpirun", "apt-get install openmpi-bin"),
    "kfp": ("kfp", "pip install 'windlass-train[kfp]'"),
}
"""Need → (program, the command that installs it)."""
_FOLDERS = f"{Path(sys.executable).parent}:{{}}:/usr/sbin"
"""Folders of programs, around those of PATH."""


def check_needs(lab: LabDescription) -> None:
    """Raises LabError if a module or a program that the lab needs is missing."""
    for need in lab.facts.needs:
        module, extra = _MODULES.get(need, ("", ""))
        if module and importlib.util.find_spec(module) is None:
            raise LabError(f"the lab {lab.facts.id} needs {module}\npip install 'windlass-train[{extra}]'")
        program, fix = _PROGRAMS.get(need, ("", ""))
        if program and shutil.which(program, path=_FOLDERS.format(os.environ.get("PATH", os.defpath))) is None:
            raise LabError(f"the lab {lab.facts.id} needs {program}\n{fix}")


def check_cluster(lab: LabDescription, folders: LabFolders) -> None:
    """Raises LabStateError if the cluster of the workshop does not run, or lacks what the lab needs."""
    if not lab.needs_cluster:
        return
    from windlass.controlplane.lasting_cluster import status  # noqa: PLC0415 - loads the libraries of Kubernetes

    running = status(folders.cluster).running
    if running is None:
        raise LabStateError(f"the lab {lab.facts.id} needs the cluster of the workshop\n{START_CLUSTER}")
    if "real-nodes" in lab.facts.needs and not running.real:
        raise LabStateError(
            f"the lab {lab.facts.id} needs real nodes, and those of the cluster are fake\n"
            f"as root: windlass lab cluster down, then {START_CLUSTER}"
        )
    if "kueue" in lab.facts.needs and not running.kueue:
        raise LabStateError(
            f"the lab {lab.facts.id} needs Kueue, which the cluster lacks\n"
            f"windlass lab cluster down, then {START_CLUSTER} --kueue"
        )
