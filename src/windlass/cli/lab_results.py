"""Rows of labs for listings, and the findings of a check as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from windlass.cli.terminal.output import Column, Listing
from windlass.labs.check_result import CheckResult
from windlass.labs.lab_description import LabDescription
from windlass.labs.lab_folders import LabFolders
from windlass.labs.progress import LearnerProgress

Row = dict[str, Any]
_STYLES = {"accepted": "green", "started": "yellow", "new": "", "folder gone": "red"}

LABS = Listing(
    (
        Column("LAB", lambda row: row["id"]),
        Column("STATE", lambda row: row["state"], style=lambda row: _STYLES[row["state"]]),
        Column("MINUTES", lambda row: str(row["minutes"]), right=True),
        Column("NEEDS", lambda row: ", ".join(row["needs"])),
        Column("DAYS", lambda row: ", ".join(map(str, row["days"])), wide=True),
        Column("CARDS", lambda row: ", ".join(row["cards"]), wide=True),
        Column("TITLE", lambda row: row["title"]),
    ),
    key="id",
    empty="this installation has no labs",
)


def lab_row(lab: LabDescription, folders: LabFolders, progress: LearnerProgress) -> Row:
    """Returns a lab with its facts and its progress."""
    record = progress.of(lab.facts.id)
    row = {**asdict(lab.facts), "state": _state(lab, folders, progress), "folder": str(folders.learner(lab.facts.id))}
    return {**row, **asdict(record)}


def check_json(lab: LabDescription, result: CheckResult) -> Row:
    """Returns the outcome of a check as a JSON object."""
    findings = [asdict(finding) for finding in result.findings]
    return {"lab": lab.facts.id, "accepted": result.accepted, "findings": findings}


def check_lines(result: CheckResult) -> Iterator[tuple[str, str]]:
    """Yields the lines of a check's text with a style each: a fix follows the first finding that is not met."""
    for finding in result.findings:
        yield f"{'ok' if finding.met else 'no':>3}  {finding.what}", "green" if finding.met else "red"
        if finding is result.refusal and finding.fix:
            yield from ((f"     {line}", "") for line in f"next: {finding.fix}".splitlines())


def _state(lab: LabDescription, folders: LabFolders, progress: LearnerProgress) -> str:
    lab_id = lab.facts.id
    if folders.is_started(lab_id) and not folders.learner(lab_id).is_dir():
        return "folder gone"
    if progress.of(lab_id).accepted_at is not None:
        return "accepted"
    return "started" if folders.is_started(lab_id) else "new"
