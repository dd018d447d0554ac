"""The reference page of all diagnosis rules, in Markdown."""

from __future__ import annotations

from importlib.resources.abc import Traversable
from typing import Any

from windlass.diagnose.failures.failure_rules import read_table, rule_tables
from windlass.diagnose.failures.verdict_texts import fill_text

_HEAD = """# Rules of `windlass doctor`

For users of `windlass doctor` and for authors of rules ([how to add one](../guides/diagnosis-rules.md)): every rule
with its cause, its role, the advice to a scheduler, what its message proves, and the fix. Each id links to its source.
A root can be a verdict; a consequence is one only where no root is known; a hint is a fact for other rules only.
"""


def rules_page() -> str:
    """A table of rules for each family, in alphabetical order of the families."""
    sections = [_section(table) for table in rule_tables()]
    count = sum(section.count("\n| [") for section in sections)
    return "\n\n".join([f"{_HEAD}\n{count} rules.", *sections]) + "\n"


def _section(table: Traversable) -> str:
    title = table.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ").rstrip(".")
    rows = [_row(rule) for rule in read_table(table)]
    head = "| rule | cause | role | advice | what it proves | fix |"
    return "\n".join([f"## {title}", "", head, "|---|---|---|---|---|---|", *rows])


def _row(rule: dict[str, Any]) -> str:
    fix = fill_text(rule["fix"], {}, None, None)
    cells = (f"[{rule['id']}]({rule['source']})", rule["cause"], rule["role"], rule["retry"], rule["why"], fix)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|').replace('<', '&lt;') for cell in cells)} |"
