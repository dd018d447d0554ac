"""Each rule and cause of `windlass doctor` and each rule of `windlass lint` has a page."""

from __future__ import annotations

import pytest

from windlass.diagnose.failures.failure_rules import load_rules
from windlass.diagnose.lint.rule import RULES
from windlass.diagnose.rule_pages import explain_lint, explain_rule, load_entries, rule_names
from windlass.jobs.errors import InputError


def one_line(text: str | None) -> str:
    assert text is not None
    return " ".join(text.split())


@pytest.mark.parametrize("name", sorted(load_rules()))
def test_the_page_of_a_rule_has_what_it_proves_the_fix_and_the_source(name: str) -> None:
    rule, page = load_rules()[name], one_line(explain_rule(name))
    assert page.startswith(f"{name} (rule of windlass doctor; cause {rule.cause}, {rule.certainty}, {rule.scope})")
    assert " ".join(rule.why.split()) in page
    assert " ".join(rule.fix.split()) in page
    assert f"SOURCE {load_entries()[name]['source']}" in page
    assert all(other in page for other in (*rule.requires, *rule.absent, *rule.beats))


def test_the_page_of_a_rule_says_what_else_must_be_there() -> None:
    both = [rule for rule in load_rules().values() if rule.requires]
    assert both
    for rule in both:
        page = one_line(explain_rule(rule.id))
        assert "WHAT ELSE MUST BE THERE " in page
        assert "these rules, too: " in page
    at_end = next(rule for rule in load_rules().values() if rule.at_end)
    assert "its line is the last one of a log" in one_line(explain_rule(at_end.id))
    sole = next(rule for rule in load_rules().values() if not (rule.requires or rule.absent or rule.at_end))
    assert "WHAT ELSE" not in one_line(explain_rule(sole.id)) or sole.needs_all


def test_the_page_of_a_cause_has_all_of_its_rules() -> None:
    causes: dict[str, list[str]] = {}
    for rule in load_rules().values():
        causes.setdefault(rule.cause, []).append(rule.id)
    for cause, rules in causes.items():
        page = one_line(explain_rule(cause))
        assert all(f"RULE {rule}" in page or page.startswith(rule) for rule in rules), cause


def test_a_lint_rule_has_its_page_under_both_paths() -> None:
    for name, rule in RULES.items():
        page = explain_rule(name)
        assert page == explain_lint(f"lint.{name}")
        assert " ".join(rule.why.split()) in one_line(page)
        assert f"SOURCE {rule.source}" in one_line(page)
    assert all(f"  {name} " in explain_lint("lint") for name in RULES)


def test_an_unknown_lint_rule_is_one_clear_error() -> None:
    with pytest.raises(InputError, match="has no rule 'gpu-resource-mispelt'; did you mean 'gpu-resource-misspelt'"):
        explain_lint("lint.gpu-resource-mispelt")
    with pytest.raises(InputError, match="windlass explain lint lists all"):
        explain_lint("lint.zzzz")


def test_a_word_of_neither_has_no_page() -> None:
    assert explain_rule("restart") is None
    assert {"package-missing", "nccl-laggard-rank", "gpu-resource-misspelt"} <= set(rule_names())
