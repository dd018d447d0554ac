"""The reference page of all rules, in Markdown."""

from __future__ import annotations

from importlib import import_module

from windlass.diagnose.lint.rule import RULES, Rule
from windlass.diagnose.lint.rules import FAMILIES, load_rules

_HEAD = """# Rules of `windlass lint`

For users of [`windlass lint`](../guides/lint.md): every rule with the reason, the fix and the document that states the
fact. Errors stop `windlass run` and `submit`; warnings are reported; infos are hints.
"""


def rules_page() -> str:
    """A table of rules for each family, in the order of the families."""
    load_rules()
    sections = [_section(family) for family in FAMILIES]
    return "\n\n".join([f"{_HEAD}\n{len(RULES)} rules.", *sections]) + "\n"


def _section(family: str) -> str:
    module = import_module(f"windlass.diagnose.lint.rules.{family}")
    rows = [_row(each) for each in RULES.values() if each.check.__module__ == module.__name__]
    title = (module.__doc__ or "").strip().rstrip(".")
    return "\n".join([f"## {title}", "", "| rule | severity | reason | fix |", "|---|---|---|---|", *rows])


def _row(rule: Rule) -> str:
    cells = (f"[{rule.id}]({rule.source})", str(rule.severity), rule.why, rule.fix)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|').replace('<', '&lt;') for cell in cells)} |"
