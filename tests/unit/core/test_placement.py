import numpy as np
import pytest
from gangs import admitted, carry_out, demand, ledger_of, node, nodes, running, waiting

from windlass.core.cycle.scheduler import schedule
from windlass.core.model.gang import Demand
from windlass.core.model.node import Node
from windlass.core.nodes.allocation import allocate_grant, release_grant
from windlass.core.placement.gang_placement import fits, place


def placed(machines, *demands):
    """Role → nodes, on nodes whose GPUs are all free."""
    table = ledger_of(machines).snapshot().table
    found = place(table.capacity, table, demands, None)
    return found and dict(found.placement.nodes)


def with_free(*free):
    """Nodes n1, n2, … with so many GPUs free of eight; node sizes would make some too small."""
    held = {f"n{row}": 8 - left for row, left in enumerate(free, start=1) if left < 8}
    return ledger_of(nodes(len(free)), *([running(1, held)] if held else []))


def start(ledger, *demands):
    ledger.add_pending(waiting(1, *demands))
    return admitted(schedule(ledger.snapshot(), 0)).get("j-1")


def test_the_tightest_node_that_holds_the_whole_gang_is_taken():
    assert start(with_free(8, 3, 4, 8), demand(3)) == ("n2", "n2", "n2")


def test_among_equally_tight_nodes_the_first_row_wins():
    assert start(with_free(8, 4, 4, 8), demand(4)) == ("n2",) * 4


def test_a_gang_takes_as_few_nodes_as_possible():
    assert start(with_free(2, 2, 2, 2, 6, 5), demand(8)) == ("n1", "n1") + ("n5",) * 6


def test_the_rest_goes_to_the_tightest_node_that_takes_it():
    assert start(with_free(8, 8, 3, 1, 2), demand(10)) == ("n1",) * 8 + ("n5",) * 2


def test_replicas_are_numbered_along_the_rows():
    assert start(with_free(1, 8, 1, 8), demand(17)) == ("n1",) + ("n2",) * 8 + ("n4",) * 8


def test_nodes_without_gpus_are_preferred_by_gangs_without_gpus():
    machines = [node("g1", 8, cpu=8000), node("c1", 0, cpu=64000)]
    assert placed(machines, demand(2, 0, cpu=4000)) == {"worker": ("c1", "c1")}


def test_the_scarcest_resource_bounds_the_count():
    assert placed([node("n1", 8, cpu=3000), node("n2", 2, cpu=9000)], demand(5, 1, cpu=1000)) == {
        "worker": ("n1", "n1", "n1", "n2", "n2")
    }


def test_replicas_that_request_nothing_fit_anywhere():
    assert placed(nodes(2), demand(3, 0)) == {"worker": ("n1", "n1", "n1")}


def test_a_gang_is_placed_whole_or_not_at_all():
    table = ledger_of(nodes(2)).snapshot().table
    assert place(table.capacity, table, (demand(2, 8), demand(1, 1, role="extra")), None) is None


def test_a_placement_can_be_taken_and_given_back():
    table = ledger_of(nodes(2)).snapshot().table
    free = table.capacity.copy(order="F")
    grant = place(free, table, (demand(3, 4), demand(1, 2, role="extra")), None).grant
    assert free[:, 0].tolist() == [8, 8]
    allocate_grant(table, free, grant)
    assert free[:, 0].tolist() == [0, 2]
    release_grant(table, free, grant)
    assert np.array_equal(free, table.capacity)


def test_the_test_for_fit_takes_nothing():
    table = ledger_of(nodes(2)).snapshot().table
    assert fits(table.capacity, table, (demand(2, 8),))
    assert fits(table.capacity, table, (demand(1, 8), demand(8, 1, role="extra")))
    assert not fits(table.capacity, table, (demand(1, 8), demand(9, 1, role="extra")))
    assert not fits(table.capacity, table, (demand(17),))


def test_the_hardest_role_is_placed_first():
    picky = demand(1, 4, role="chief", zone="a")
    assert placed([node("n1", 4, zone="a"), node("n2", 4)], demand(1, 4), picky) == {
        "chief": ("n1",),
        "worker": ("n2",),
    }


def test_another_order_of_the_roles_is_tried_before_giving_up():
    # "big" asks for most and goes first, onto the tightest node; "wide" could only go there, since n3 is busy
    machines = [node("n1", 4, memory=8), node("n2", 5, memory=2), node("n3", 1, memory=8)]
    ledger = ledger_of(machines, running(9, {"n3": 1}))
    ledger.add_pending(waiting(1, demand(1, 4, role="big"), demand(1, 1, role="wide", memory=8)))
    [admission] = schedule(ledger.snapshot(), 0).admissions
    assert dict(admission.placement.nodes) == {"big": ("n2",), "wide": ("n1",)}


@pytest.mark.parametrize("closed", [(), ("n1",), ("n1", "n2")])
def test_closed_nodes_are_not_used(closed):
    table = ledger_of(nodes(2)).snapshot().table
    mask = np.array([name.name in closed for name in table.nodes])
    found = place(table.capacity, table, (demand(1, 8),), mask)
    assert (found is None) == (len(closed) == 2)
    assert found is None or not set(closed) & set(found.placement.distinct())


def test_a_node_that_shrank_below_its_usage_takes_no_replica():
    ledger = ledger_of(nodes(2), running(1, {"n1": 6}))
    ledger.set_cluster([node("n1", 4), node("n2", 2)], ())
    ledger.add_pending(waiting(2, demand(3)))
    assert "j-2" not in admitted(carry_out(ledger))
    ledger.add_pending(waiting(3, demand(2), priority=1))
    assert admitted(carry_out(ledger)) == {"j-3": ("n2", "n2")}


def test_roles_that_need_different_resources_share_nodes_evenly():
    """No order of whole roles places these on two nodes; one of each per node does."""
    machines = [Node(f"n{number}", {"gpu": 6, "cpu": 10_000}) for number in (1, 2)]
    sizes = {"a": (2, 4_000), "b": (3, 1_000), "c": (1, 3_000)}
    found = placed(machines, *(Demand(role, 2, {"gpu": gpu, "cpu": cpu}) for role, (gpu, cpu) in sizes.items()))
    assert found == dict.fromkeys("abc", ("n1", "n2"))
