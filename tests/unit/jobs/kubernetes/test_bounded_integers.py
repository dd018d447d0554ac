"""Numbers in objects of the Kubernetes API: read within bounds, whatever is written."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.jobs.kubernetes.bounded_integers import MAX_INT64, natural_key, parse_integer, require_integer


@pytest.mark.parametrize(("written", "number"), [(0, 0), ("7", 7), ("007", 7), (3.0, 3), (2**31 - 1, 2**31 - 1)])
def test_a_number_within_the_bounds_is_read(written: Any, number: int) -> None:
    assert parse_integer(written) == number


@pytest.mark.parametrize(
    "written",
    [
        *("", " 1", "1 ", "1_0", "+1", "1e3", "0x1", "1.0", "²", "٣", "-1", "9" * 20, "1" * 4_301, "0" * 4_301),
        *(-1, 2**31, 10**4_301, 1.5, float("inf"), float("nan"), 1e300, True, None, [], {}),
    ],
    ids=lambda each: repr(each)[:20] if not isinstance(each, int) or abs(each) < 10**40 else "long",
)
def test_anything_else_is_no_number(written: Any) -> None:
    assert parse_integer(written) is None


def test_a_negative_number_is_read_where_the_bounds_allow_it() -> None:
    assert parse_integer("-5", -10, 10) == parse_integer(-5, -10, 10) == -5


def test_a_required_number_is_refused_with_its_bounds() -> None:
    assert require_integer("12") == 12
    with pytest.raises(ValueError, match=f"from 0 to {MAX_INT64}, not '111"):
        require_integer("1" * 4_301)


def test_names_are_sorted_by_the_numbers_in_them() -> None:
    names = ["w10", "w2", "w" + "1" * 200, "a", "w²"]
    assert sorted(names, key=natural_key)[:3] == ["a", "w2", "w10"]
