"""Each rule finds the fault planted for it in examples/broken, and none finds one in files that are right."""

from pathlib import Path

import pytest

from windlass.diagnose.lint.engine import SUFFIXES, lint_paths
from windlass.diagnose.lint.findings import RuleSeverity
from windlass.diagnose.lint.reference_page import rules_page
from windlass.diagnose.lint.rule import RULES

ROOT = Path(__file__).parents[4]
BROKEN = sorted((ROOT / "examples/broken").iterdir())
RIGHT = sorted(
    path
    for folder in ("examples", "tests/kubernetes/samples", "tests/unit/diagnose/lint/right")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in SUFFIXES and "broken" not in path.parts
)


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_a_planted_fault_raises_its_rule_and_no_other(path):
    assert {finding.rule for finding in lint_paths([str(path)])} == {path.stem}


def test_every_rule_has_a_planted_fault():
    assert {path.stem for path in BROKEN} == set(RULES)


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_that_is_right_raises_nothing(path):
    hints = () if "right" in path.parts else (RuleSeverity.INFO,)
    assert [each for each in lint_paths([str(path)]) if each.severity not in hints] == []


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_a_rule_states_its_reason_fix_and_source(rule):
    assert rule.why.endswith(".")
    assert rule.fix.endswith(".")
    assert rule.source.startswith("https://")


def test_the_reference_page_lists_every_rule():
    page = (ROOT / "docs/reference/lint-rules.md").read_text(encoding="utf-8")
    assert page == rules_page(), "run python docs/generate.py"
    assert all(f"| [{name}](" in page for name in RULES)
