from gangs import demand, ledger_of, node, nodes, running

from windlass.core.explain.node_choice import node_candidates
from windlass.core.model.gang import Demand
from windlass.core.model.policy import Policy
from windlass.core.placement.gang_placement import place

TYPICAL = ((Demand("worker", 1, {"gpu": 4}), 3), (Demand("worker", 1, {"gpu": 1}), 1))
LOOKING_AHEAD = Policy(scoring="fgd", typical_demands=TYPICAL)


def candidates(ledger, asked, policy):
    snapshot = ledger.snapshot()
    found = node_candidates(snapshot.free, snapshot.table, asked, policy)
    placed = place(snapshot.free, snapshot.table, (asked,), None, policy)
    assert placed is None or found[0].node in placed.placement.nodes["worker"]
    return [(one.node, one.decided_by) for one in found]


def test_the_tightest_node_goes_first_and_each_tie_break_is_named():
    machines = [node("n1", 8, cpu=9), node("n2", 4, cpu=9), node("n3", 4, cpu=5), node("n4", 4, cpu=5)]
    assert candidates(ledger_of(machines), demand(1, 2), Policy()) == [
        ("n3", ""),
        ("n4", "row"),
        ("n2", "cpu"),
        ("n1", "gpu"),
    ]


def test_nodes_with_room_for_more_replicas_go_first():
    machines = [node("n1", 2), node("n2", 8), node("n3", 4)]
    assert candidates(ledger_of(machines), demand(3, 2), Policy()) == [
        ("n2", ""),
        ("n3", "replicas"),
        ("n1", "replicas"),
    ]


def test_a_score_counts_before_tightness():
    """One GPU of the four left on n1 would make the others useless to most gangs; of the five on n2 it does not."""
    busy = ledger_of(nodes(2), running(1, {"n1": 4, "n2": 3}))
    assert candidates(busy, demand(1, 1), Policy()) == [("n1", ""), ("n2", "gpu")]
    assert candidates(busy, demand(1, 1), LOOKING_AHEAD) == [("n2", ""), ("n1", "score")]


def test_no_candidates_are_listed_without_room():
    assert candidates(ledger_of(nodes(1)), demand(1, 9), LOOKING_AHEAD) == []
