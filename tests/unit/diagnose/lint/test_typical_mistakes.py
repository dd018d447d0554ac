"""Mistakes that people make are found, twelve of each kind."""

import copy

import pytest
import yaml
from planted_faults import MANIFESTS
from typical_mistakes import MISTAKES, SCRIPTS

from windlass.diagnose.lint.engine import lint_texts
from windlass.jobs.syntax.text import Text

CASES = [
    pytest.param(kind, rule, mistake, id=f"{kind}: {what}")
    for kind, mistakes in MISTAKES.items()
    for what, (rule, mistake) in mistakes.items()
]


@pytest.mark.parametrize(("kind", "rule", "mistake"), CASES)
def test_a_typical_mistake_in_a_manifest_is_found(kind, rule, mistake):
    document = copy.deepcopy(MANIFESTS[kind])
    mistake(document)
    found = lint_texts([Text("a.yaml", yaml.safe_dump(document, sort_keys=False))])
    assert rule in {each.rule for each in found}


@pytest.mark.parametrize(("rule", "script"), SCRIPTS.values(), ids=SCRIPTS)
def test_a_typical_mistake_in_a_batch_script_is_found(rule, script):
    assert rule in {each.rule for each in lint_texts([Text("a.sbatch", script)])}


def test_there_are_twelve_of_each_kind():
    assert {kind: len(mistakes) for kind, mistakes in {**MISTAKES, "sbatch": SCRIPTS}.items()} == dict.fromkeys(
        (*MISTAKES, "sbatch"), 12
    )
