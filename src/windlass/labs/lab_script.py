"""Runs a script of a lab, such as `setup.sh` or `solve.sh`, in the learner's folder and with the lab's environment."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from windlass.labs.errors import LabError
from windlass.labs.lab_description import LabDescription
from windlass.labs.lab_environment import UNSET, lab_variables, program_folders
from windlass.labs.lab_folders import LabFolders

TIMEOUT_S = 240.0
_SHOWN_LINES = 15


def run_script(script: Path, lab: LabDescription, folders: LabFolders, *, timeout: float = TIMEOUT_S) -> str:
    """Runs `sh -eu SCRIPT` unattended and returns its output. Raises LabError with the end of the output."""
    paths = [*program_folders(lab, folders), os.environ.get("PATH", os.defpath)]
    inherited = {name: value for name, value in os.environ.items() if name not in UNSET}
    try:
        ran = subprocess.run(
            ["sh", "-eu", str(script)],
            cwd=folders.learner(lab.facts.id),
            env={**inherited, **lab_variables(lab, folders), "PATH": ":".join(paths)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise LabError(_failure(script, f"has not ended in {timeout:g} s", error.output or b"")) from None
    if ran.returncode:
        raise LabError(_failure(script, f"ended with {ran.returncode}", ran.stdout))
    return ran.stdout.decode(errors="replace")


def _failure(script: Path, end: str, output: bytes) -> str:
    lines = output.decode(errors="replace").splitlines()[-_SHOWN_LINES:]
    return "\n".join([f"{script.parent.name}/{script.name} {end}", *lines])
