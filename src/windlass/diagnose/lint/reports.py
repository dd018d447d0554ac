"""Findings as text, JSON, SARIF 2.1.0 and GitHub workflow commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import windlass
from windlass.diagnose.lint.findings import LintFinding, RuleSeverity
from windlass.diagnose.lint.rule import RULES

_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {RuleSeverity.ERROR: "error", RuleSeverity.WARNING: "warning", RuleSeverity.INFO: "note"}
_COMMANDS = {RuleSeverity.ERROR: "error", RuleSeverity.WARNING: "warning", RuleSeverity.INFO: "notice"}


def as_text(findings: Sequence[LintFinding]) -> str:
    """A paragraph for each finding, and the counts."""
    return "\n".join([*map(finding_text, findings), _counts(findings)])


def finding_text(finding: LintFinding) -> str:
    """Place, severity and message of a finding; why it is one; the fix."""
    place = f"{finding.source}:{finding.place.line}:{finding.place.column}"
    head = f"{place}: {finding.severity}: {finding.message} [{finding.rule}]"
    return f"{_one_line(head)}\n    {finding.why}\n    fix: {finding.fix}"


def _one_line(text: str) -> str:
    """The text with escapes for control characters."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _counts(findings: Sequence[LintFinding]) -> str:
    if not findings:
        return "no findings"
    counts = [(severity, sum(each.severity is severity for each in findings)) for severity in RuleSeverity]
    return ", ".join(f"{count} {severity}{'s' * (count > 1)}" for severity, count in counts if count)


def as_rows(findings: Sequence[LintFinding]) -> list[dict[str, Any]]:
    """Findings as plain data."""
    return [
        {
            "file": each.source,
            "line": each.place.line,
            "column": each.place.column,
            "rule": each.rule,
            "severity": str(each.severity),
            "message": each.message,
            "why": each.why,
            "fix": each.fix,
            "source": each.link,
            "fixable": each.replacement is not None,
        }
        for each in findings
    ]


def as_json(findings: Sequence[LintFinding]) -> str:
    """A list of objects."""
    return json.dumps(as_rows(findings), indent=2)


def as_sarif(findings: Sequence[LintFinding]) -> str:
    """SARIF 2.1.0, as code scanning services read it."""
    rules = [
        {
            "id": name,
            "shortDescription": {"text": rule.why},
            "help": {"text": rule.fix},
            "helpUri": rule.source,
            "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        }
        for name, rule in RULES.items()
        if any(each.rule == name for each in findings)
    ]
    driver = {"name": "windlass lint", "version": windlass.__version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(each) for each in findings],
    }
    return json.dumps({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _result(finding: LintFinding) -> dict[str, Any]:
    place = finding.place
    region = {"startLine": place.line, "startColumn": place.column, "endColumn": place.column + place.width}
    location = {"artifactLocation": {"uri": quote(PurePath(finding.source).as_posix())}, "region": region}
    return {
        "ruleId": finding.rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.message}. Fix: {finding.fix}"},
        "locations": [{"physicalLocation": location}],
    }


def as_github(findings: Sequence[LintFinding]) -> str:
    """Workflow commands, which GitHub shows as annotations of a pull request."""
    return "\n".join(map(_command, findings))


def _command(finding: LintFinding) -> str:
    place = finding.place
    properties = {"file": finding.source, "line": place.line, "col": place.column, "title": finding.rule}
    written = ",".join(f"{name}={_escape(str(value), property=True)}" for name, value in properties.items())
    return f"::{_COMMANDS[finding.severity]} {written}::{_escape(f'{finding.message}. Fix: {finding.fix}')}"


def _escape(text: str, *, property: bool = False) -> str:
    for character, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"), *(((":", "%3A"), (",", "%2C")) * property)):
        text = text.replace(character, code)
    return text


FORMATS: Mapping[str, Callable[[Sequence[LintFinding]], str]] = MappingProxyType(
    {"text": as_text, "json": as_json, "sarif": as_sarif, "github": as_github}
)
"""Writer of each output format."""
