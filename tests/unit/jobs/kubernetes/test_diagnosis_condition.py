"""The condition with the verdict on a wait: written by one leader, read by the next one."""

from __future__ import annotations

import pytest

from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.status import Phase, Status
from windlass.jobs.kubernetes.status.diagnosis_condition import diagnosis_condition, read_wait_verdict

WAITING = Status(phase=Phase.ADMITTED, generation=2)
CAUSES = [
    DiagnosedCause(0, "A volume claim of the job is not bound: data", "volume-claim", "certain"),
    DiagnosedCause(2, "The image a:1 cannot be pulled", "image-pull", "likely", unseen="log of pod a-0: gone"),
    DiagnosedCause(2, "The text (certain) ends; like: this (likely)", "queue-quota-too-small"),
    DiagnosedCause(2, "x" * 1_000, "config-missing", "certain", unseen="y" * 500),
    DiagnosedCause(12, "Rank 3 was killed", "signal-9", "possible"),
]


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.rule)
def test_a_verdict_that_was_read_is_shown_as_it_was(cause: DiagnosedCause) -> None:
    shown = diagnosis_condition(WAITING, cause)
    assert shown is not None
    found = read_wait_verdict((shown,))
    assert found is not None
    assert (found.generation, diagnosis_condition(WAITING, found)) == (cause.generation, shown)


def test_text_certainty_and_gaps_are_told_apart() -> None:
    shown = diagnosis_condition(WAITING, CAUSES[1])
    assert shown is not None
    assert read_wait_verdict((shown,)) == CAUSES[1]


@pytest.mark.parametrize(
    "condition",
    [
        {"status": "True", "reason": "ImagePull", "message": "attempt 1: The image cannot be pulled"},
        {"status": "False", "reason": "NoKnownCause", "message": "waits: no line points to a cause"},
        {"status": "True", "reason": "image pull", "message": "waits: The image"},
        {"status": "True", "reason": "ImagePull", "message": "waits: two\nlines"},
        {"status": "True", "reason": "ImagePull", "message": "waits: " + "x" * 5_000},
        {"status": "True", "reason": 7, "message": ["waits: "]},
        {"status": "True"},
    ],
)
def test_a_condition_that_no_leader_has_written_about_a_wait_is_left_out(condition: dict[str, str]) -> None:
    assert read_wait_verdict(({"type": "Diagnosed", **condition},)) is None
    assert read_wait_verdict(()) is None
