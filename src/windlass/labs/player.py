"""Plays a lab unattended: a clean start, one script of the catalog, and the check of what the script left."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from windlass.labs.check_result import CheckResult, check_lab
from windlass.labs.errors import LabError
from windlass.labs.lab_description import LabDescription
from windlass.labs.lab_folders import LabFolders
from windlass.labs.lab_script import run_script
from windlass.labs.lab_start import start_lab
from windlass.labs.progress import Report

_REFUSED = "# refused: "
_TIMEOUT_S = 540.0
"""Limit of a script that plays a lab, whose jobs start torch several times: a loaded machine needs four minutes."""


@dataclass(frozen=True, slots=True)
class PlayedScript:
    """The outcome of one script: its output, the check after it, and the seconds from the start to the verdict."""

    output: str
    result: CheckResult
    seconds: float


def play_script(lab: LabDescription, script: Path, folders: LabFolders, report: Report) -> PlayedScript:
    """Starts a lab afresh, runs the script and checks the lab. Raises LabError if the script fails."""
    began = time.monotonic()
    start_lab(lab, folders, report, fresh=True)
    output = run_script(script, lab, folders, timeout=_TIMEOUT_S)
    return PlayedScript(output, check_lab(lab, folders), time.monotonic() - began)


def expected_refusal(mistake: Path) -> str:
    """Returns the words of the finding with which the check refuses a mistake. Raises LabError."""
    first = mistake.read_text(encoding="utf-8").partition("\n")[0]
    if not first.startswith(_REFUSED):
        raise LabError(f"{mistake} does not begin with {_REFUSED!r} and words of the finding")
    return first.removeprefix(_REFUSED).strip()
