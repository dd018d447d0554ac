import gc
import weakref
from dataclasses import replace

import pytest
from gangs import admitted, demand, ledger_of, node, nodes, running, waiting

from windlass.core.cycle.scheduler import schedule
from windlass.core.model.gang import Demand
from windlass.core.model.plan import Plan
from windlass.core.model.reasons import CauseCount, Reason
from windlass.core.model.status import Placement


def plan_of(*gangs, machines=None, now=0) -> Plan:
    return schedule(ledger_of(machines or nodes(4), *gangs).snapshot(), now)


def test_the_verdict_of_a_gang_that_lacks_nodes_has_counts():
    machines = [*nodes(3, zone="a"), node("n4", zone="b"), node("n5", zone="a", cordoned="Xid 79")]
    plan = plan_of(running(1, {"n1": 8, "n2": 5}), waiting(2, demand(3, 8, zone="a")), machines=machines)
    verdict = plan.verdicts["j-2"]
    assert verdict.reason is Reason.WAITING_FOR_QUOTA
    assert verdict.message == (
        "needs 3×8 gpu as one gang: 11 free on 2 nodes, room for 1 of 3; 1 node lost to label zone=a, 1 cordoned"
    )
    assert (verdict.resource, verdict.wanted, verdict.fits, verdict.free, verdict.usable) == ("gpu", 3, 1, 11, 8)
    assert verdict.counts == (CauseCount("label zone=a", 1), CauseCount("cordoned", 1), CauseCount("full", 2))


def test_free_capacity_in_too_small_pieces_is_reported():
    verdict = plan_of(running(1, {f"n{row}": 4 for row in range(1, 5)}), waiting(2, demand(2, 8))).verdicts["j-2"]
    assert verdict.reason is Reason.TOPOLOGY_PLACEMENT_FAILED
    assert verdict.message == "needs 2×8 gpu as one gang: 16 free on 4 nodes, room for 0 of 2"


def test_a_single_replica_shows_the_largest_free_piece():
    verdict = plan_of(running(1, {"n1": 3, "n2": 6}), waiting(2, demand(1, 8)), machines=nodes(2)).verdicts["j-2"]
    assert verdict.message == "needs 8 gpu on one node: 7 free on 2 nodes, at most 5 on one"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"gpu": 1, "cpu": 9000}, "needs 2×9 cpu as one gang: 8 free on 1 node, room for 0 of 2"),
        ({"gpu": 0, "cpu": 500, "memory": 3 * 2**30}, "needs 2×3Gi memory as one gang: none free"),
    ],
)
def test_the_resource_that_binds_is_named_in_its_own_unit(asked, expected):
    machines = [node("n1", 8, cpu=10_000, memory=4 * 2**30), node("n2", 8, cpu=10_000, memory=4 * 2**30)]
    held = running(1, {"n1": 1, "n2": 1}, gpu=1)
    ledger = ledger_of(machines, held)
    ledger.hold(_also(held, {"n1": {"cpu": 2000, "memory": 4 * 2**30}, "n2": {"cpu": 10_000, "memory": 4 * 2**30}}))
    ledger.add_pending(waiting(2, demand(2, **asked)))
    verdict = schedule(ledger.snapshot(), 0).verdicts["j-2"]
    assert verdict.message == expected


def _also(gang, amounts):
    """The gang with one role more per node, of these amounts."""
    roles = tuple(Demand(name, 1, asked) for name, asked in amounts.items())
    return replace(gang, demands=roles, placement=Placement({name: (name,) for name in amounts}))


def test_the_failing_role_of_several_is_named():
    plan = plan_of(
        running(1, {"n1": 8, "n2": 8, "n3": 8}), waiting(2, demand(1, 8, role="chief"), demand(3, 4, role="worker"))
    )
    verdict = plan.verdicts["j-2"]
    assert verdict.message == "needs 3×4 gpu for its role worker: none free"
    assert verdict.wanted == 3


def test_only_the_first_gang_has_an_eta():
    plan = plan_of(running(1, {"n1": 8}, ends_by=500), waiting(2, demand(4, 8)), waiting(3, demand(4, 8)))
    assert plan.verdicts["j-2"].eta == 500
    assert plan.verdicts["j-3"].eta is None
    assert plan.verdicts["j-2"].message == plan.verdicts["j-3"].message


def test_verdicts_are_listed_by_turn_and_counted():
    plan = plan_of(running(1, {"n1": 8}), waiting(4, demand(4, 8)), waiting(3, demand(1, 9)), waiting(2, demand(4, 8)))
    assert list(plan.verdicts) == ["j-2", "j-3", "j-4"]
    assert len(plan.verdicts) == 3
    assert "j-9" not in plan.verdicts


def test_a_started_gang_has_no_verdict():
    plan = plan_of(*(waiting(number, demand(2, 8)) for number in range(3)))
    assert list(admitted(plan)) == ["j-0", "j-1"]
    assert list(plan.verdicts) == ["j-2"]
    assert plan.verdicts["j-2"].free == 0


def test_a_gang_blocked_by_a_reservation_names_its_owner():
    """j-10 waits for x1, which is full; a long gang that wants the rest of y1 is in the way of j-11 alone."""
    machines = [node("x1", 8, zone="x"), node("y1", 8, zone="y")]
    runs = running(1, {"x1": 8}, ends_by=100), running(2, {"y1": 4}, ends_by=50)
    first, second = waiting(10, demand(1, 8, zone="x"), walltime=10), waiting(11, demand(1, 8, zone="y"), walltime=10)
    plan = schedule(ledger_of(machines, *runs, first, second, waiting(12, demand(1, 4), walltime=60)).snapshot(), 0)
    assert plan.verdicts["j-12"].behind == "j-11"


def test_a_plan_that_is_no_longer_used_is_freed_without_a_collection_of_garbage():
    plan = plan_of(running(1, {"n1": 8}, ends_by=50), waiting(2, demand(8, 8)), waiting(3, demand(8, 8)))
    assert list(plan.order) == list(plan.verdicts) == ["j-2", "j-3"]
    assert plan.verdicts["j-2"].message
    verdicts = weakref.ref(plan.verdicts)
    gc.disable()
    try:
        del plan
        assert verdicts() is None
    finally:
        gc.enable()
