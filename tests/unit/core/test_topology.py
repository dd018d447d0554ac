import numpy as np
import pytest
from gangs import ledger_of, node

from windlass.core.model.job import TopologyRequest
from windlass.core.placement.topology_placement import candidate_domains, choose_domains

LEVELS = ("block", "rack")


def cluster(**racks):
    """A table of one row per number: `a1=(2, 2)` is block a, rack 1, with two nodes."""
    machines = [
        node(f"{rack}n{number}", place=(rack[0], rack[1:]) if rack != "nowhere" else ())
        for rack, free in racks.items()
        for number, _ in enumerate(free)
    ]
    return ledger_of(machines, levels=LEVELS).snapshot().table


def chosen(request, wanted, able=None, **racks):
    """Rack → replicas, or None; `racks`: number of replicas that fit on each of its nodes."""
    table = cluster(**racks)
    room = {f"{rack}n{number}": count for rack, free in racks.items() for number, count in enumerate(free)}
    counts = np.array([min(room[machine.name], wanted) for machine in table.nodes])
    found = choose_domains(counts, counts >= 0 if able is None else able(table), table, wanted, request)
    if found is None:
        return None
    parts = found.parts.tolist()
    assert sum(number for _, _, number in parts) == wanted
    for start, stop, number in parts:
        assert 0 < number <= found.counts[start:stop].sum()
    return {"".join(sorted({racked(table, row) for row in range(a, b)})): number for a, b, number in parts}


def racked(table, row):
    return "".join(table.nodes[row].place) or "nowhere"


IN_A_RACK = TopologyRequest("rack")
IN_A_BLOCK = TopologyRequest("block")
NEAR = TopologyRequest("rack", required=False)


# --- packed ---------------------------------------------------------------------------------------------


def test_the_tightest_domain_that_takes_the_whole_gang_is_chosen():
    assert chosen(IN_A_RACK, 3, a1=(2, 2), a2=(1, 2), b1=(1, 1, 2)) == {"a2": 3}


def test_the_first_of_equal_domains_is_chosen():
    assert chosen(IN_A_RACK, 3, a1=(1, 1), b1=(1, 2), b2=(2, 1)) == {"b1": 3}


def test_a_required_level_is_never_widened():
    assert chosen(IN_A_RACK, 5, a1=(2, 2), a2=(2, 2), b1=(1, 1, 2)) is None


def test_the_narrowest_domain_below_the_requested_level_is_chosen():
    assert chosen(IN_A_BLOCK, 4, a1=(2, 3), a2=(3, 2), b1=(3, 1), b2=(1,)) == {"b1": 4}


def test_all_domains_below_are_filled_except_for_the_tightest_last_one():
    assert chosen(IN_A_BLOCK, 10, a1=(3, 3), a2=(2,), a3=(2, 3), a4=(4,), b1=(9,)) == {"a1": 6, "a4": 4}
    assert chosen(IN_A_BLOCK, 8, a1=(3, 3), a2=(2,), a3=(2, 3), a4=(3, 1)) == {"a1": 6, "a2": 2}


def test_a_gang_of_one_node_goes_to_the_tightest_node_anywhere():
    assert chosen(IN_A_RACK, 3, a1=(2, 2), b1=(3,)) == {"a1b1": 3}


def test_a_preferred_level_tries_wider_levels_and_then_the_whole_cluster():
    assert chosen(NEAR, 3, a1=(2, 2), a2=(2, 2), b1=(1, 2)) == {"b1": 3}
    assert chosen(NEAR, 5, a1=(2, 2), a2=(2, 2), b1=(1, 2), b2=(2,)) == {"b1": 3, "b2": 2}
    assert chosen(NEAR, 12, a1=(2, 2), a2=(2, 2), b1=(1, 2), b2=(2,)) == {"a1a2": 8, "b1": 3, "b2": 1}
    assert chosen(NEAR, 14, a1=(2, 2), a2=(2, 2), b1=(1, 2), b2=(2,)) is None


def test_nodes_without_a_place_are_in_no_domain():
    assert chosen(IN_A_RACK, 3, a1=(1, 1), nowhere=(2, 2, 2)) is None
    assert chosen(IN_A_RACK, 2, a1=(1, 1), nowhere=(2, 2, 2)) == {"a1": 2}
    assert chosen(NEAR, 7, a1=(1, 1), nowhere=(2, 2, 2)) == {"a1": 1, "nowhere": 6}


def test_an_unknown_level_does_not_block_if_it_is_only_preferred():
    assert chosen(TopologyRequest("row"), 2, a1=(1, 1)) is None
    assert chosen(TopologyRequest("row", required=False), 2, a1=(1, 1)) == {"a1": 2}


# --- spread ---------------------------------------------------------------------------------------------

EVENLY = TopologyRequest("rack", spread=True)
AS_EVENLY_AS_CAN_BE = TopologyRequest("rack", spread=True, required=False)


def test_a_spread_is_even_with_the_rest_in_the_tightest_domains():
    assert chosen(EVENLY, 7, a1=(4, 4), a2=(2, 2), b1=(3,)) == {"a1": 2, "a2": 2, "b1": 3}


def test_a_domain_without_room_keeps_a_required_spread_waiting():
    assert chosen(EVENLY, 6, a1=(4, 4), a2=(0,), b1=(3,)) is None
    assert chosen(AS_EVENLY_AS_CAN_BE, 6, a1=(4, 4), a2=(0,), b1=(3,)) == {"a1": 3, "b1": 3}


def test_a_domain_without_usable_nodes_is_no_part_of_the_spread():
    def without_a2(table):
        return np.array([racked(table, row) != "a2" for row in range(len(table.nodes))])

    assert chosen(EVENLY, 6, without_a2, a1=(4, 4), a2=(0,), b1=(3,)) == {"a1": 3, "b1": 3}


def test_a_spread_may_have_fewer_replicas_than_domains():
    assert chosen(EVENLY, 2, a1=(4, 4), a2=(1,), b1=(3,)) == {"a2": 1, "b1": 1}


def test_a_spread_over_blocks_is_packed_inside_them():
    assert chosen(TopologyRequest("block", spread=True), 6, a1=(2, 2), a2=(2, 1), b1=(1, 1), b2=(2, 2)) == {
        "a2": 3,
        "b2": 3,
    }


def test_a_preferred_spread_is_as_even_as_the_room_allows():
    assert chosen(AS_EVENLY_AS_CAN_BE, 9, a1=(1,), a2=(2,), b1=(4,), b2=(5,)) == {"a1": 1, "a2": 2, "b1": 3, "b2": 3}


# --- slices ---------------------------------------------------------------------------------------------


def in_slices(size, level="rack", *, required=True):
    return TopologyRequest(level, required, slice=size)


def test_each_slice_is_in_one_domain():
    assert chosen(in_slices(3), 6, a1=(2, 2), a2=(2, 3), b1=(1, 1)) == {"a1": 3, "a2": 3}
    assert chosen(in_slices(3), 9, a1=(2, 2), a2=(2, 3), b1=(1, 1)) is None


def test_slices_go_to_as_few_wider_domains_as_possible():
    assert chosen(in_slices(2), 6, a1=(1, 1), a2=(1, 1), b1=(1, 1), b2=(1, 1), b3=(1, 1)) == {
        "b1": 2,
        "b2": 2,
        "b3": 2,
    }


def test_a_domain_takes_several_slices():
    assert chosen(in_slices(2), 8, a1=(2, 2), a2=(2, 3), b1=(1, 1)) == {"a1": 4, "a2": 4}


def test_the_rack_with_least_left_of_equal_racks_gets_the_slices():
    assert chosen(in_slices(4), 4, a1=(2, 2, 2), a2=(2, 2), b1=(3, 3)) == {"a2": 4}


def test_slices_that_only_prefer_the_level_fit_into_wider_domains():
    assert chosen(in_slices(3, required=False), 6, a1=(1, 1), a2=(2,), b1=(1, 1), b2=(2,)) == {
        "a1": 2,
        "a2": 1,
        "b1": 2,
        "b2": 1,
    }


def test_a_gang_that_is_not_a_multiple_of_the_slice_has_no_placement():
    assert chosen(in_slices(4), 6, a1=(4, 4)) is None
    assert chosen(in_slices(4, required=False), 6, a1=(4, 4)) is None


# --- several roles --------------------------------------------------------------------------------------


def spans(request, *roles, gpus=()):
    table = cluster(a1=(0, 0), a2=(0,), b1=(0, 0))
    rooms, resources = ([(np.array(room), wanted) for room, wanted in each] for each in (roles, gpus))
    return [tuple(span) for span in candidate_domains(rooms, resources, table, request)]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (IN_A_RACK, [(3, 5), (0, 2)]),
        (NEAR, [(3, 5), (0, 2), (3, 5), (0, 3), (0, 5)]),
        (EVENLY, [(0, 5)]),
    ],
)
def test_candidate_domains_for_all_roles_are_sorted_by_tightness(request_, expected):
    assert spans(request_, ([2, 2, 2, 1, 1], 2), ([2, 2, 0, 1, 1], 1)) == expected


def test_roles_that_compete_for_one_resource_are_summed():
    roles = ([2, 2, 2, 1, 1], 2), ([2, 2, 0, 1, 1], 1)
    assert spans(IN_A_RACK, *roles, gpus=[([2, 2, 2, 1, 1], 3)]) == [(0, 2)]
