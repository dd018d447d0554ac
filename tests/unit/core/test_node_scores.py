"""Scores that look ahead: fragmentation by hand, shadow prices, and nodes chosen by them."""

from fractions import Fraction

import numpy as np
import pytest
from gangs import ledger_of, node, nodes, running

from windlass.core.model.gang import Demand
from windlass.core.model.node import Node
from windlass.core.model.policy import Policy
from windlass.core.nodes.allocation import allocate_grant
from windlass.core.nodes.feasibility import eligibility
from windlass.core.placement.gang_placement import place
from windlass.core.placement.scores.fragmentation import fragmentation, free_gpus_of, most_popular, typical_demands_of
from windlass.core.placement.scores.registry import SCORES, chooser_of
from windlass.core.placement.scores.shadow_prices import shadow_prices_of, worth_of_free_part


def asking(**resources):
    return Demand("worker", 1, {name.replace("_", "-"): amount for name, amount in resources.items()})


def sharing(name, gpu=2, cpu=64):
    return Node(name, {"gpu": gpu, "cpu": cpu}, sharing="milli")


def fragmentation_of(snapshot, *typical):
    """F of each node, in thousandths of a GPU."""
    table = snapshot.table
    compiled = typical_demands_of(table, typical)
    return fragmentation(compiled, free_gpus_of(table, compiled, snapshot.free, np.arange(len(table.nodes)))).tolist()


# --- fragmentation --------------------------------------------------------------------------------------


def test_gpus_are_fragments_for_demands_that_do_not_fit_on_their_node():
    snapshot = ledger_of([node("n1", 4), node("n2", 8)]).snapshot()
    assert fragmentation_of(snapshot, (asking(gpu=8), 1)) == [4000, 0]
    assert fragmentation_of(snapshot, (asking(gpu=8), 1), (asking(gpu=1), 3)) == [1000, 0]


def test_a_demand_that_lacks_cpu_could_use_none_of_the_gpus():
    snapshot = ledger_of([node("n1", 4, cpu=3), node("n2", 4, cpu=9)]).snapshot()
    assert fragmentation_of(snapshot, (asking(gpu=1, cpu=5), 1)) == [4000, 0]


def test_rare_demands_are_left_out():
    common, rare = (asking(gpu=1), 95), (asking(gpu=8), 5)
    assert most_popular([rare, common]) == [common]
    assert most_popular([(asking(gpu=8), 6), common]) == [common, (asking(gpu=8), 6)]
    assert most_popular([]) == []


def test_demands_without_gpus_use_none():
    assert fragmentation_of(ledger_of(nodes(1, 4)).snapshot(), (asking(cpu=0), 1), (asking(gpu=1), 1)) == [2000]


def test_shared_gpus_with_too_little_left_are_fragments():
    ledger = ledger_of([sharing("n1", 3)])
    snapshot = ledger.snapshot()
    free = snapshot.free.copy(order="F")
    for milli in (700, 500):
        found = place(free, snapshot.table, (asking(gpu_milli=milli),), None)
        allocate_grant(snapshot.table, free, found.grant)
    table = snapshot.table
    typical = typical_demands_of(table, [(asking(gpu_milli=400), 1)])
    assert fragmentation(typical, free_gpus_of(table, typical, free, np.array([0]))).tolist() == [300]


# --- prices ---------------------------------------------------------------------------------------------


def test_a_part_costs_what_it_denies_to_others():
    assert shadow_prices_of([300, 700], [4, 1]) == [Fraction(1, 3), Fraction(2, 3)]


def test_a_part_that_no_other_fits_beside_costs_a_gpu():
    assert shadow_prices_of([810], [5]) == [1]
    assert shadow_prices_of([470], [5]) == [Fraction(1, 2)]


def test_parts_that_fit_into_left_over_capacity_cost_nothing():
    assert shadow_prices_of([150, 810], [1, 100]) == [0, 1]


@pytest.mark.parametrize("times", [(3, 5, 2, 7), (1, 1, 1, 1), (9, 1, 4, 2)])
def test_no_set_of_parts_on_one_gpu_is_worth_more_than_a_gpu(times):
    sizes = (220, 320, 470, 650)
    value = dict(zip(sizes, shadow_prices_of(sizes, times), strict=True))
    for counts in np.ndindex(5, 4, 3, 2):
        if sum(n * size for n, size in zip(counts, sizes, strict=True)) <= 1000:
            assert sum(n * value[size] for n, size in zip(counts, sizes, strict=True)) <= 1


def test_a_rest_is_worth_the_best_set_of_parts_that_fits():
    found = worth_of_free_part(((320, 1), (470, 9)))
    assert found[[319, 320, 470, 940, 1000]].tolist() == [0, 333, 500, 1000, 1000]
    assert worth_of_free_part(())[[999, 1000]].tolist() == [0, 1000]


# --- choosing -------------------------------------------------------------------------------------------

TYPICAL = ((asking(gpu=1), 4), (asking(gpu_milli=470), 3), (asking(gpu_milli=320), 2), (asking(gpu_milli=650), 1))


def test_the_default_score_is_tightest():
    assert Policy().scoring == "tightest"
    table = ledger_of(nodes(1)).snapshot().table
    assert chooser_of(Policy(), table, table.capacity, TYPICAL[0][0], eligibility(table, TYPICAL[0][0])) is None


@pytest.mark.parametrize("scoring", [name for name, scoring in SCORES.items() if scoring.uses_typical_demands])
def test_large_free_blocks_are_kept_for_large_demands(scoring):
    """Four of eight GPUs are free on both nodes; n1 has too little cpu left for a gang of four."""
    machines = [node("n1", 8, cpu=5), node("n2", 8, cpu=64)]
    snapshot = ledger_of(machines, running(1, {"n1": 4, "n2": 4})).snapshot()
    typical = ((asking(gpu=4, cpu=8), 3), (asking(gpu=1, cpu=1), 1))
    policy = Policy(scoring=scoring, typical_demands=typical)
    found = place(snapshot.free, snapshot.table, (asking(gpu=1, cpu=1),), None, policy)
    assert found.placement.nodes["worker"] == ("n1",)


def test_prices_fill_a_gpu_with_the_best_fitting_parts():
    """350 thousandths are left of one GPU, 530 of another: 320 go beside the 650, so that 470 still fit."""
    snapshot = ledger_of([sharing("n1", 3)]).snapshot()
    free = snapshot.free.copy(order="F")
    policy = Policy(scoring="prices", typical_demands=TYPICAL)
    got = []
    for milli in (650, 470, 320, 470):
        found = place(free, snapshot.table, (asking(gpu_milli=milli),), None, policy)
        allocate_grant(snapshot.table, free, found.grant)
        got += found.placement.devices["worker"]
    assert got == [(0,), (1,), (0,), (1,)]


def test_cached_scores_equal_newly_computed_ones():
    """Cached scores are computed again for nodes that have changed, and only for these."""
    table = ledger_of([sharing(f"n{number}", 4) for number in range(6)]).snapshot().table
    policy = Policy(scoring="prices", typical_demands=TYPICAL)
    free = table.capacity.copy(order="F")
    for number in range(40):
        asked = TYPICAL[number % 4][0]
        found = place(free, table, (asked,), None, policy)
        fresh = ledger_of(table.nodes).snapshot().table
        assert found.placement == place(free, fresh, (asked,), None, policy).placement
        if number % 5:
            allocate_grant(table, free, found.grant)
