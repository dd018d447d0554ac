"""A page for each rule and cause of `windlass doctor`, and for each rule of `windlass lint`."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from windlass.diagnose.failures.failure_rules import read_table, rule_tables
from windlass.diagnose.lint.rule import RULES, Rule
from windlass.diagnose.lint.rules import load_rules as load_lint_rules
from windlass.jobs.errors import input_error
from windlass.jobs.syntax.names import did_you_mean

LINT = "lint"
"""First word of the path of a lint rule's page: `windlass explain lint.gpu-resource-misspelt`."""
_LISTS = f"; windlass explain {LINT} lists all"
_WIDTH = 80
_ROLES = {
    "root": "names a cause",
    "consequence": "another process or rank failed before; the verdict only where no cause is known",
    "hint": "healthy runs print it too; it only decides between other rules",
}
_ADVICE = {
    "retry": "another start may succeed",
    "avoid-node": "another start may succeed on other nodes",
    "stop": "another start fails in the same way",
}

Entry = Mapping[str, Any]


@functools.cache
def load_entries() -> Mapping[str, Entry]:
    """Returns the rules of `windlass doctor` as their tables have them, by id."""
    return {entry["id"]: entry for table in rule_tables() for entry in read_table(table)}


def rule_names() -> list[str]:
    """Returns the names that have a page: rules and causes of `windlass doctor`, and rules of `windlass lint`."""
    load_lint_rules()
    entries = load_entries()
    return sorted({*entries, *(entry["cause"] for entry in entries.values()), *RULES})


def explain_rule(name: str) -> str | None:
    """Returns the page of a rule or a cause; None where there is none.

    A rule whose id is a cause has its page and that of the cause with its other rules.
    """
    entries = load_entries()
    pages = [_rule_page(entries[name])] if name in entries else []
    others = [entry for entry in entries.values() if entry["cause"] == name and entry["id"] != name]
    pages += [_cause_page(name, others)] if others else []
    load_lint_rules()
    pages += [_lint_page(RULES[name])] if name in RULES else []
    return "\n".join(pages) or None


def explain_lint(path: str) -> str:
    """Returns the page of "lint.RULE", or for "lint" the list of all rules. Raises InputError."""
    load_lint_rules()
    name = path.removeprefix(LINT).removeprefix(".")
    if not name:
        width = max(map(len, RULES))
        rows = [f"  {each.id:<{width}}  {each.why}" for each in RULES.values()]
        return "\n".join([f"{LINT}\n\nRules of windlass lint. windlass explain RULE tells more.", "", *rows]) + "\n"
    if name not in RULES:
        raise input_error(LINT, f"has no rule {name[:40]!r}{did_you_mean(name, RULES) or _LISTS}")
    return _lint_page(RULES[name])


def _rule_page(entry: Entry) -> str:
    """Returns the page of a rule of `windlass doctor`."""
    others = [f"{each['cause']}: {each['text']} To decide: {each['decide']}" for each in entry.get("others", ())]
    parts = {
        "PROVES": [entry["why"]],
        "VERDICT": [entry["verdict"]],
        "WHAT ELSE MUST BE THERE": [*_conditions(entry)],
        "WINS OVER": [", ".join(entry.get("beats", ()))],
        "FIX": [entry["fix"]],
        "NEXT COMMAND": [entry.get("command", "")],
        "TO BE SURE": [entry.get("decide", "")],
        "OTHER CAUSES": others,
        "ROLE": [f"{entry['role']}: {_ROLES[entry['role']]}"],
        "ADVICE": [f"{entry['retry']}: {_ADVICE[entry['retry']]}"],
    }
    head = f"{entry['id']}  (rule of windlass doctor; cause {entry['cause']}, {entry['certainty']}, {entry['scope']})"
    return "\n".join([head, *_sections(parts), "", f"SOURCE\n  {entry['source']}"]) + "\n"


def _conditions(entry: Entry) -> Iterator[str]:
    if entry.get("all"):
        yield f"all {len(entry['signatures'])} of its signatures in one log"
    if requires := entry.get("requires"):
        yield f"these rules, too: {', '.join(requires)}"
    if absent := entry.get("absent"):
        yield f"none of these rules: {', '.join(absent)}"
    if entry.get("at_end"):
        yield "its line is the last one of a log, of a job that failed or stands still"


def _cause_page(cause: str, entries: Iterable[Entry]) -> str:
    """Returns the page of a cause: its rules, each with what it proves and the fix."""
    lines = [f"{cause}  (cause of windlass doctor)"]
    for entry in entries:
        lines += ["", f"RULE {entry['id']}", *_wrapped(entry["why"]), *_wrapped(f"Fix: {entry['fix']}")]
        lines += [f"  {entry['source']}"]
    return "\n".join(lines) + "\n"


def _lint_page(rule: Rule) -> str:
    kinds = ", ".join(sorted(rule.kinds))
    parts = {
        "WHY": [rule.why],
        "CHECKS": [f"each {rule.subject}{f' of {kinds}' if kinds else ''}"],
        "FIX": [rule.fix],
        "IGNORE": [f"# windlass: ignore[{rule.id}]"],
    }
    head = f"{rule.id}  (rule of windlass lint; {rule.severity})"
    return "\n".join([head, *_sections(parts), "", f"SOURCE\n  {rule.source}"]) + "\n"


def _sections(parts: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yields the lines of the parts that have a text."""
    for title, texts in parts.items():
        lines = [line for text in texts if text for line in _wrapped(text)]
        if lines:
            yield from ("", title, *lines)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
