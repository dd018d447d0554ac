"""Runs the check of a lab over the evidence that the learner's work left."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

from windlass.labs.errors import LabError, LabStateError
from windlass.labs.evidence.findings import EvidenceError, Finding
from windlass.labs.evidence.lab import Lab
from windlass.labs.lab_description import LabDescription
from windlass.labs.lab_folders import LabFolders

Check = Callable[[Lab], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The findings of one check, in the order of the lab's steps."""

    findings: tuple[Finding, ...]

    @property
    def accepted(self) -> bool:
        """Whether every finding is met."""
        return bool(self.findings) and all(finding.met for finding in self.findings)

    @property
    def refusal(self) -> Finding | None:
        """The first finding that is not met: the next thing to do."""
        return next((finding for finding in self.findings if not finding.met), None)


def check_lab(lab: LabDescription, folders: LabFolders) -> CheckResult:
    """Runs the check of a started lab. Raises LabStateError if it is not started or its folder is gone."""
    lab_id = lab.facts.id
    if not folders.is_started(lab_id):
        raise LabStateError(f"the lab {lab_id} is not started\nwindlass lab start {lab_id}")
    if not folders.learner(lab_id).is_dir():
        raise LabStateError(f"{folders.learner(lab_id)} is gone\nwindlass lab start {lab_id} restores it")
    findings: list[Finding] = []
    try:
        for finding in load_check(lab)(Lab(lab_id, folders)):
            findings.append(finding)  # noqa: PERF402 - those before an unreadable one are kept
    except EvidenceError as error:
        findings.append(error.finding)
    return CheckResult(tuple(findings))


def load_check(lab: LabDescription) -> Check:
    """Returns the function `check` of the lab's `check.py` in the catalog. Raises LabError."""
    path = lab.folder / "check.py"
    spec = importlib.util.spec_from_file_location(f"windlass_lab_{lab.facts.id}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise LabError(f"the lab {lab.facts.id} has no {path}\ninstall windlass-train again")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return cast("Check", module.check)
