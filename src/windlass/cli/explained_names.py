"""The names that `windlass explain` knows, and their pages: fields, network profiles, checks, rules and causes."""

from __future__ import annotations

from windlass.diagnose.check_pages import ROOT as CHECKS
from windlass.diagnose.check_pages import explain_check, load_checks
from windlass.diagnose.rule_pages import LINT, explain_lint, explain_rule, rule_names
from windlass.jobs.errors import InputError, input_error
from windlass.jobs.field_docs import field_help
from windlass.jobs.syntax.names import nearest


def page_of(name: str) -> str:
    """Returns the page of a name. Raises InputError, with the nearest name."""
    root, _, rest = name.partition(".")
    if root == LINT:
        return explain_lint(name)
    if root == CHECKS:
        return (explain_rule(rest) if rest else None) or explain_check(name)
    try:
        return field_help.explain(name)
    except InputError:
        if rest:
            raise
        if page := explain_rule(name):
            return page
        raise _unknown(name) from None


def explained_names() -> list[str]:
    """Returns all names with a page; of fields those of the first level."""
    checks = [f"{CHECKS}.{name}" for name in load_checks()]
    return [*field_help.first_names(), CHECKS, LINT, *checks, *rule_names()]


def _unknown(name: str) -> InputError:
    near = nearest(name, explained_names())
    hint = f"did you mean {near!r}?" if near else f"windlass explain job, {CHECKS} and {LINT} list names"
    return input_error("explain", f"no field, rule or cause is called {name[:40]!r}; {hint}")
