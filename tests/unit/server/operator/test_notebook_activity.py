"""The last activity of a notebook: in Jupyter's list of kernels, and in the annotation."""

from __future__ import annotations

import pytest

from windlass.server.operator.notebook_culler import LAST_ACTIVITY, activity_of, last_activity

NOON = 1_795_780_800_000
"""2026-11-27 12:00 UTC."""


def kernel(state: str, last: object) -> dict[str, object]:
    return {"id": "k", "execution_state": state, "last_activity": last}


def test_a_kernel_that_runs_a_cell_is_active_now():
    assert activity_of([kernel("idle", "2026-11-27T10:00:00Z"), kernel("busy", "2026-11-27T08:00:00Z")], NOON) == NOON


def test_idle_kernels_have_the_latest_of_their_times_and_none_of_the_future():
    kernels = [kernel("idle", "2026-11-27T10:00:00.5Z"), kernel("idle", "2026-11-27T11:00:00Z")]
    assert activity_of(kernels, NOON) == NOON - 3_600_000
    assert activity_of([kernel("idle", "2099-01-01T00:00:00Z")], NOON) == NOON


@pytest.mark.parametrize("kernels", [[], [kernel("idle", None)], [kernel("idle", {"at": 3})], [kernel("idle", "soon")]])
def test_kernels_without_times_show_no_activity(kernels: object):
    assert activity_of(kernels, NOON) == 0


@pytest.mark.parametrize("answer", [None, {}, {"message": "Forbidden"}, "idle", [3], [["idle"]]])
def test_any_other_answer_is_none_of_jupyter(answer: object):
    assert activity_of(answer, NOON) is None


@pytest.mark.parametrize(
    ("written", "expected"),
    [("2026-11-27T11:00:00Z", NOON - 3_600_000), ("2099-01-01T00:00:00Z", NOON), ("yesterday", None), ("", None)],
)
def test_the_annotation_is_a_time_or_nothing(written: str, expected: int | None):
    assert last_activity({"metadata": {"annotations": {LAST_ACTIVITY: written}}}, NOON) == expected


def test_a_notebook_without_annotations_has_no_known_activity():
    assert last_activity({"metadata": {}}, NOON) is None
