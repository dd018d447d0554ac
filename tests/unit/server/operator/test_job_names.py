"""Resolution of typed names to jobs of a cluster."""

import pytest

from windlass.server.errors import ApiError
from windlass.server.operator import job_names

IDS = ["team/digits", "team/pytorchjob/digits", "other/tfjob/digits", "team/pytorchjob/big", "team/podgroup/shell"]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("big", ["team/pytorchjob/big"]),
        ("pytorchjob/big", ["team/pytorchjob/big"]),
        ("team/big", ["team/pytorchjob/big"]),
        ("team/pytorchjob/big", ["team/pytorchjob/big"]),
        ("team/digits", ["team/digits"]),  # an id means itself
        ("tfjob/digits", ["other/tfjob/digits"]),
        ("other/digits", ["other/tfjob/digits"]),
        ("digits", ["other/tfjob/digits", "team/digits", "team/pytorchjob/digits"]),
        ("nowhere/big", []),
        ("ig", []),
        ("a/b/c/big", []),
        ("", []),
    ],
)
def test_the_end_of_an_id_is_enough(typed, found):
    assert job_names.find_candidates(typed, IDS) == found


def test_slashes_may_be_colons_in_a_url():
    assert job_names.normalize_name("team:pytorchjob:why") == "team/pytorchjob/why"


def test_several_candidates_are_listed():
    with pytest.raises(ApiError) as refused:
        job_names.choose_only("digits", job_names.find_candidates("digits", IDS))
    assert str(refused.value) == (
        "'digits' may be any of 3 jobs: other/tfjob/digits, team/digits, team/pytorchjob/digits\nuse the whole id"
    )
    with pytest.raises(ApiError, match="and 3 more"):
        job_names.choose_only("x", list("abcdefgh"))


@pytest.mark.parametrize(
    ("typed", "hint"),
    [("digit", "did you mean team/digits"), ("tean/digits", "did you mean team/digits"), ("zzz", "`windlass history`")],
)
def test_an_unknown_name_is_refused_with_the_nearest_names(typed, hint):
    assert hint in job_names.unknown_job(typed, ["team/digits", "team/podgroup/shell"]).message
