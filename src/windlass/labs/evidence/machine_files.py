"""Machines as trees of /proc, /sys, /dev and /etc in a folder, judged by the checks of `windlass doctor host`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import PathDistribution
from pathlib import Path

from windlass.diagnose.host.checklist import check_host
from windlass.diagnose.host.readers.host_reader import read_host
from windlass.diagnose.host.readers.live_calls import MOUNTED
from windlass.diagnose.host.readers.package_reader import describe_torch
from windlass.diagnose.steps import CheckStep
from windlass.labs.evidence.findings import EvidenceError

PACKAGES = "opt/venv/site-packages"
"""Folder of a machine with the Python packages of its training jobs."""
_MAX_ENTRIES = 2000


def judge_machine(folder: Path) -> Mapping[str, CheckStep]:
    """Returns the steps of the doctor by name for the machine in a folder. Raises EvidenceError."""
    _check_tree(folder)
    torch = next(iter(sorted((folder / PACKAGES).glob("torch-*.dist-info"))), None)
    found = describe_torch(PathDistribution(torch)) if torch else None
    calls = replace(MOUNTED, torch=lambda: found, packages=dict)
    return {step.name: step for step in check_host(read_host(folder, calls))}


def _check_tree(folder: Path) -> None:
    """Raises EvidenceError unless a folder holds folders and regular files only, and not too many."""
    count = 0
    for place, folders, files in os.walk(folder):
        count += len(folders) + len(files)
        for path in (Path(place) / name for name in (*folders, *files)):
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise EvidenceError(f"{path.name} is neither a file nor a folder", f"remove it: rm {path}")
        if count > _MAX_ENTRIES:
            raise EvidenceError(f"{folder.name} has more than {_MAX_ENTRIES} files", "begin anew: windlass lab reset")
