"""One run reports every fault of a file: none hides another."""

import itertools
import random
from collections import Counter

import pytest
import yaml
from planted_faults import MANIFESTS, faults_of, planted

from windlass.diagnose.lint.engine import lint_texts
from windlass.jobs.syntax.text import Text

SAMPLES = 30
"""Sets of three and four faults of each kind, beside all pairs."""


def found(document):
    """Counts the findings of each rule in a document."""
    text = yaml.safe_dump(document, sort_keys=False)
    return Counter(each.rule for each in lint_texts([Text("a.yaml", text)]))


def ordinary(kind):
    """Counts the findings in the manifest of a kind without planted faults: hints at most."""
    return found(planted(kind, []))


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_planted_fault_is_reported(kind):
    usual = ordinary(kind)
    missed = [each.name for each in faults_of(kind) if (found(planted(kind, [each])) - usual)[each.rule] != 1]
    assert missed == []


@pytest.mark.parametrize("kind", MANIFESTS)
def test_no_fault_hides_another(kind):
    usual, faults = ordinary(kind), faults_of(kind)
    alone = {each: found(planted(kind, [each])) - usual for each in faults}
    drawn = random.Random(kind)  # noqa: S311 - draws samples of a test
    sets = [*itertools.combinations(faults, 2)]
    sets += [tuple(drawn.sample(faults, 3 + number % 2)) for number in range(SAMPLES)]
    for several in sets:
        expected = sum((alone[each] for each in several), Counter())
        missed = expected - found(planted(kind, several))
        assert not missed, f"{[each.name for each in several]} hide {dict(missed)}"
