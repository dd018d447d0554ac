"""Accuracy of `windlass doctor` on the half of the blind set on which rules are tuned. It must not get worse."""

import pytest
from diagnosis_accuracy import changed, results, table

LEAST_RIGHT = 0.93
LEAST_RIGHT_CHANGED = 0.90


@pytest.mark.parametrize(
    ("change", "least"), [(str, LEAST_RIGHT), (changed, LEAST_RIGHT_CHANGED)], ids=["as is", "changed"]
)
def test_most_cases_get_the_right_verdict_and_none_a_wrong_certain_one(change, least):
    found = results("tuning", change)
    _, cases, right, wrong = table(found)[-1]
    assert right >= least * cases, [each.id for each in found if not each.is_right]
    assert wrong <= 0.02 * cases, [each.id for each in found if each.is_confidently_wrong]
