import pytest
from gangs import demand, ledger_of, node, nodes, waiting

from windlass.core.cycle.scheduler import schedule
from windlass.core.model.gang import Demand
from windlass.core.model.job import Toleration
from windlass.core.model.node import Node, Taint
from windlass.core.model.reasons import CauseCount
from windlass.core.model.resources import MAX_AMOUNT
from windlass.core.nodes.feasibility import eligibility, room_when_empty, with_all_nodes_up
from windlass.core.nodes.node_filters import is_tolerated

GPU_ONLY = Taint("gpu", "yes")


def able_names(table, asked):
    return [row.name for row, able in zip(table.nodes, eligibility(table, asked).mask, strict=True) if able]


def test_each_node_is_excluded_by_its_first_cause():
    table = (
        ledger_of(
            [
                node("a1", zone="a"),
                node("a2", zone="a", gpu=2),
                node("a3", zone="a", cordoned="Xid 79"),
                node("a4", zone="a", ready=False, cordoned="drained"),
                node("a5", zone="a", taints=[GPU_ONLY], cordoned="drained"),
                node("b1", zone="b", gpu=2, ready=False),
                node("c1"),
            ]
        )
        .snapshot()
        .table
    )
    able = eligibility(table, demand(1, 4, zone="a"))
    assert able.filter_result.counts == (
        CauseCount("label zone=a", 2),
        CauseCount("taint gpu=yes:NoSchedule", 1),
        CauseCount("not ready", 1),
        CauseCount("cordoned", 1),
        CauseCount("too small", 1),
    )
    assert able_names(table, demand(1, 4, zone="a")) == ["a1"]


def test_labels_are_checked_in_the_order_of_their_names():
    table = (
        ledger_of([node("n1", zone="a"), node("n2", kind="h100"), node("n3", zone="a", kind="h100")]).snapshot().table
    )
    assert eligibility(table, demand(1, zone="a", kind="h100")).filter_result.counts == (
        CauseCount("label kind=h100", 1),
        CauseCount("label zone=a", 1),
    )


@pytest.mark.parametrize(
    ("toleration", "taint", "expected"),
    [
        (Toleration("gpu", "Equal", "yes"), GPU_ONLY, True),
        (Toleration("gpu", "Equal", "no"), GPU_ONLY, False),
        (Toleration("gpu", "Exists"), GPU_ONLY, True),
        (Toleration("gpu", "Exists", effect="NoExecute"), GPU_ONLY, False),
        (Toleration(operator="Exists"), GPU_ONLY, True),
        (Toleration(value="yes"), GPU_ONLY, False),
        (Toleration("cpu", "Exists"), GPU_ONLY, False),
        (Toleration("gpu", "Equal", "yes", "NoSchedule"), GPU_ONLY, True),
        (Toleration("x"), Taint("gpu", effect="PreferNoSchedule"), True),
    ],
)
def test_tolerations_match_as_in_kubernetes(toleration, taint, expected):
    assert is_tolerated(taint, (toleration,)) is expected


def test_a_node_is_excluded_by_the_taint_that_is_not_tolerated():
    table = ledger_of([node("n1", taints=[GPU_ONLY, Taint("lab")])]).snapshot().table
    one = Toleration("gpu", "Exists")
    assert eligibility(table, demand(1, tolerations=(one,))).filter_result.counts == (
        CauseCount("taint lab:NoSchedule", 1),
    )
    assert able_names(table, demand(1, tolerations=(one, Toleration("lab", "Exists")))) == ["n1"]


@pytest.mark.parametrize("asked", [{"tpu": 1}, {"gpu": MAX_AMOUNT + 1}, {"gpu": 10**30}])
def test_a_resource_that_no_node_has_fits_nowhere(asked):
    table = ledger_of(nodes(2)).snapshot().table
    able = eligibility(table, Demand("worker", 1, asked))
    assert able.filter_result.counts == (CauseCount("too small", 2),)
    assert room_when_empty(able, 1) == 0


def test_a_request_for_zero_of_an_unknown_resource_is_no_obstacle():
    table = ledger_of(nodes(1)).snapshot().table
    assert able_names(table, Demand("worker", 1, {"gpu": 1, "tpu": 0})) == ["n1"]


def test_requests_that_differ_only_in_size_share_a_filter_result():
    table = ledger_of(nodes(3)).snapshot().table
    assert eligibility(table, demand(1, 3)).filter_result is eligibility(table, demand(5, 4)).filter_result
    assert eligibility(table, demand(1, 3)) is eligibility(table, demand(7, 3))


def test_a_new_table_drops_cached_answers_of_the_old_one():
    ledger = ledger_of(nodes(1))
    assert able_names(ledger.snapshot().table, demand(1)) == ["n1"]
    ledger.set_cluster(nodes(1, cordoned="now"), ())
    assert able_names(ledger.snapshot().table, demand(1)) == []


def test_cached_answers_are_dropped_before_they_fill_the_memory():
    table = ledger_of([node(f"n{number}", number=str(number)) for number in range(2_000)]).snapshot().table
    for number in range(2_000):
        eligibility(table, demand(1, number=str(number)))
        assert len(table.derived) * len(table.nodes) <= 2**25


def test_restored_nodes_are_up_again():
    table = ledger_of([node("n1", cordoned="x"), node("n2", ready=False), node("n3", gpu=1)]).snapshot().table
    assert able_names(with_all_nodes_up(table), demand(1, 2)) == ["n1", "n2"]
    assert able_names(table, demand(1, 2)) == []


def test_a_gang_without_eligible_nodes_names_the_causes():
    plan = schedule(
        ledger_of(
            [node("n1", zone="a"), node("n2", cordoned="x"), node("n3")], waiting(1, demand(2, 8, zone="b"))
        ).snapshot(),
        0,
    )
    assert plan.verdicts["j-1"].reason == "NoMatchingFlavor"
    assert plan.verdicts["j-1"].message == (
        "needs 2×8 gpu as one gang: no node could take a replica, however empty; 3 nodes lost to label zone=b"
    )


def test_a_node_without_a_resource_has_zero_of_it():
    assert able_names(ledger_of([Node("n1", {"cpu": 1000})]).snapshot().table, demand(1, 1)) == []
