"""Parts of topology placement: levels as ranges of rows, packing, spreading."""

import numpy as np
import pytest
from gangs import ledger_of, node

from windlass.core.nodes.topology_domains import domain_name, level_number, levels_of
from windlass.core.placement.domain_packing import fewest_domains, tightest_domain
from windlass.core.placement.even_spread import skew, spread


def table_of(*places, names=("block", "rack")):
    return ledger_of([node(f"n{n}", place=place) for n, place in enumerate(places)], levels=names).snapshot().table


def test_every_domain_is_one_range_of_rows():
    table = table_of(("b", "1"), ("a", "2"), ("a", "10"), ("b", "1"), ("a", "2"))
    block, rack = levels_of(table)
    assert (block.bounds.tolist(), rack.bounds.tolist()) == ([0, 3, 5], [0, 2, 3, 5])
    assert [domain_name(table, 1, row) for row in (0, 2, 3)] == ["a/2", "a/10", "b/1"]


def test_racks_whose_numbers_are_written_differently_stay_apart():
    table = table_of(("a", "1"), ("a", "01"), ("a", "1"), ("a", "01"))
    assert levels_of(table)[1].bounds.tolist() == [0, 2, 4]


def test_an_incomplete_place_has_no_domain_at_the_lower_levels():
    block, rack = levels_of(table_of(("a", "1"), ("a",), ()))
    assert block.has_name.tolist() == [False, True]
    assert rack.has_name.tolist() == [False, False, True]


def test_a_level_is_found_by_its_name():
    table = table_of(("a", "1"))
    assert [level_number(table, name) for name in ("block", "rack", "row")] == [0, 1, None]


@pytest.mark.parametrize(("sums", "wanted", "expected"), [([3, 2, 2, 5], 2, 1), ([3, 1], 3, 0), ([3, 1], 4, None)])
def test_the_tightest_domain_that_suffices_is_chosen(sums, wanted, expected):
    assert tightest_domain(np.array(sums), wanted) == expected


@pytest.mark.parametrize(
    ("sums", "wanted", "expected"),
    [
        ([3, 5, 1, 4], 10, [(1, 5), (3, 4), (2, 1)]),
        ([3, 5, 1, 4], 9, [(1, 5), (3, 4)]),
        ([2, 2, 2], 5, [(0, 2), (1, 2), (2, 1)]),
        ([7, 3], 2, [(1, 2)]),
    ],
)
def test_the_largest_domains_are_filled_and_the_rest_goes_to_the_tightest(sums, wanted, expected):
    domains, numbers = fewest_domains(np.array(sums), wanted)
    assert list(zip(domains.tolist(), numbers.tolist(), strict=True)) == expected


@pytest.mark.parametrize(
    ("room", "wanted", "expected"),
    [
        ([9, 9, 9], 7, [3, 2, 2]),
        ([9, 5, 9], 7, [2, 3, 2]),
        ([1, 9, 9], 7, [1, 3, 3]),
        ([0, 9, 2], 8, [0, 6, 2]),
        ([0, 0], 1, None),
        ([], 1, None),
    ],
)
def test_a_spread_follows_water_filling(room, wanted, expected):
    found = spread(np.array(room, dtype=np.int64), wanted)
    assert (found if found is None else found.tolist()) == expected


def test_the_skew_is_the_largest_difference():
    assert skew(np.array([3, 1, 2])) == 2
