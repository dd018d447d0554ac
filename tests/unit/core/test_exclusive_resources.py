"""Host ports and anti-affinity: one replica a node, without a column in the node table for each job."""

from dataclasses import replace

import pytest
from gangs import admitted, carry_out, demand, ledger_of, node, nodes, running, waiting

from windlass.core.cycle.scheduler import schedule
from windlass.core.invariants import snapshot_violations
from windlass.core.model.gang import Demand, start_gang
from windlass.core.model.node import Topology
from windlass.core.model.policy import Policy
from windlass.core.model.reasons import Gate, Reason, Verdict
from windlass.core.nodes.exclusive_requests import MAX_CONTENDED

HOUR = 3_600_000
PORT, GROUP = "hostport/80", "apart/team/app=web"


def exclusive(replicas: int, *names: str, gpu: int = 1, role: str = "worker") -> Demand:
    return Demand(role, replicas, {"gpu": gpu, **dict.fromkeys(names, 1)})


def columns(ledger) -> list[str]:
    return [name for name in ledger.snapshot().table.resource_names if "/" in name]


def test_each_replica_gets_a_node_of_its_own_without_a_column():
    ledger = ledger_of(nodes(3), waiting(1, exclusive(3, GROUP)))
    assert admitted(carry_out(ledger)) == {"j-1": ("n1", "n2", "n3")}
    assert columns(ledger) == []


def test_more_replicas_than_nodes_never_fit():
    ledger = ledger_of(nodes(2), waiting(1, exclusive(3, PORT)))
    assert carry_out(ledger).verdicts["j-1"].message == (
        "needs 3×1 gpu as one gang: 2 nodes could take a replica, 2 of 3 in all, however empty"
    )


def test_nodes_on_which_foreign_pods_hold_it_are_excluded_and_named():
    machines = [replace(node("n1"), exclusive_in_use=(PORT,)), node("n2")]
    ledger = ledger_of(machines, waiting(1, exclusive(2, PORT)), waiting(2, exclusive(1, PORT)))
    plan = carry_out(ledger)
    assert admitted(plan) == {"j-2": ("n2",)}
    assert plan.verdicts["j-1"].message.endswith("however empty; 1 node lost to holders of hostport/80")


def test_a_second_gang_that_requests_it_adds_a_column():
    ledger = ledger_of(nodes(2), waiting(1, exclusive(1, PORT)))
    assert admitted(carry_out(ledger)) == {"j-1": ("n1",)}
    ledger.add_pending(waiting(2, exclusive(2, PORT)))
    assert columns(ledger) == [PORT]
    plan = carry_out(ledger)
    assert admitted(plan) == {}
    assert plan.verdicts["j-2"].message == "needs 2×1 hostport/80 as one gang: 1 free on 1 node, room for 1 of 2"
    ledger.release("j-1")
    assert admitted(carry_out(ledger)) == {"j-2": ("n1", "n2")}
    assert snapshot_violations(ledger.snapshot()) == []


def test_a_gang_that_waits_for_a_port_holds_a_reservation_for_it():
    """The column makes the port part of the forecast: the first gang ends in an hour."""
    first = waiting(1, exclusive(2, PORT), walltime=HOUR)
    ledger = ledger_of(nodes(2), first)
    carry_out(ledger)
    ledger.add_pending(waiting(2, exclusive(2, PORT), walltime=HOUR))
    assert carry_out(ledger).verdicts["j-2"].eta == HOUR


def test_a_gang_of_lower_priority_is_stopped_for_its_port():
    ledger = ledger_of(nodes(1), waiting(1, exclusive(1, PORT)))
    ledger.set_cluster(nodes(1), (), None, Policy(min_runtime=0))
    carry_out(ledger)
    ledger.add_pending(waiting(2, exclusive(1, PORT), priority=5))
    assert [preemption.job_id for preemption in carry_out(ledger).preemptions] == ["j-1"]


def test_roles_that_avoid_each_other_are_on_different_nodes():
    roles = exclusive(1, GROUP, role="master"), exclusive(2, GROUP)
    ledger = ledger_of(nodes(3), waiting(1, *roles), waiting(2, demand(1), *[exclusive(1, PORT, role="other")]))
    plan = carry_out(ledger)
    placement = plan.admissions[0].placement
    assert sorted(name for names in placement.nodes.values() for name in names) == ["n1", "n2", "n3"]
    assert columns(ledger) == []
    assert snapshot_violations(ledger.snapshot()) == []


def test_the_shortage_of_roles_that_avoid_each_other_counts_nodes():
    roles = exclusive(1, GROUP, role="master"), exclusive(2, GROUP)
    assert "needs" in carry_out(ledger_of(nodes(2), waiting(1, *roles))).verdicts["j-1"].message


def test_an_elastic_gang_does_not_grow_onto_its_own_nodes():
    run = running(1, {"n1": 1, "n2": 1})
    role = replace(exclusive(2, GROUP), min_count=1, max_count=8)
    ledger = ledger_of(nodes(3), replace(run, demands=(role,)))
    (resize,) = carry_out(ledger, 10 * HOUR).resizes
    assert resize.placement.nodes["worker"] == ("n1", "n2", "n3")


def test_a_request_for_two_of_one_exclusive_resource_never_fits():
    asks_for_two = Demand("worker", 1, {PORT: 2})
    assert carry_out(ledger_of(nodes(2), waiting(1, asks_for_two))).admissions == ()


def test_constraint_masks_are_kept_while_only_amounts_change():
    picky = demand(1, 4, zone="a")
    machines = [node("n1", 8, zone="a"), node("n2", 8, zone="b")]
    ledger = ledger_of(machines, waiting(1, picky))
    carry_out(ledger)
    before = ledger.table.constraint_masks
    assert before
    ledger.set_cluster([replace(machines[0], capacity={"gpu": 7}), machines[1]], ())
    assert ledger.table.constraint_masks is before
    assert ledger.table.derived == {}


@pytest.mark.parametrize("change", [{"labels": {"zone": "b"}}, {"taints": ("x",)}])
def test_constraint_masks_are_dropped_when_labels_or_taints_change(change):
    machines = [node("n1", 8, zone="a"), node("n2", 8, zone="b")]
    ledger = ledger_of(machines, waiting(1, demand(1, 4, zone="a")))
    carry_out(ledger)
    ledger.set_cluster([replace(machines[0], **change), machines[1]], (), Topology())
    assert ledger.table.constraint_masks == {}


def test_a_grant_computed_before_a_column_was_added_still_starts_its_gang():
    ledger = ledger_of(nodes(1), waiting(1, exclusive(1, PORT)))
    snapshot = ledger.snapshot()
    admission = carry_out(ledger_of(nodes(1), waiting(1, exclusive(1, PORT)))).admissions[0]
    ledger.add_pending(waiting(2, exclusive(1, PORT)))
    ledger.hold(start_gang(snapshot.pending[0], admission.placement, 0), admission.grant)
    assert ledger.free[0, ledger.table.column[PORT]] == 0


def test_columns_of_many_contended_resources_are_added_in_one_new_table():
    ledger = ledger_of(nodes(8))
    tables = ledger.table.epoch
    for number in range(8):
        ledger.add_pending(waiting(number, exclusive(1, f"apart/ml/app=a{number % 4}")))
    version = ledger.version
    assert len(columns(ledger)) == 4
    assert (ledger.table.epoch, ledger.version) == (tables + 1, version), "it calls for no plan of its own"
    assert len(admitted(carry_out(ledger))) == 8
    assert (columns(ledger), ledger.table.epoch) == ([f"apart/ml/app=a{number}" for number in range(4)], tables + 1)
    assert snapshot_violations(ledger.snapshot()) == []


def test_a_new_leader_adds_the_columns_of_running_gangs_in_one_new_table():
    before = ledger_of(nodes(8), *(waiting(number, exclusive(1, f"apart/ml/app=a{number % 4}")) for number in range(8)))
    carry_out(before)
    after = ledger_of(nodes(8))
    tables = after.table.epoch
    for gang in before.snapshot().running.values():
        after.hold(gang)
    assert (after.free == before.free).all()
    assert after.table.epoch == tables + 1


def test_the_number_of_columns_is_bounded_and_shared_between_namespaces():
    pairs = [waiting(2 * k + j, exclusive(1, f"apart/greedy/a.b/c={k}")) for k in range(300) for j in (1, 2)]
    ledger = ledger_of(nodes(4), *pairs, *(waiting(600 + j, exclusive(1, GROUP)) for j in (1, 2)))
    assert len(columns(ledger)) == MAX_CONTENDED
    assert GROUP in columns(ledger)
    assert ledger.snapshot().uncounted_exclusives == {f"apart/greedy/a.b/c={k}" for k in range(MAX_CONTENDED - 1, 300)}
    assert schedule(ledger.snapshot(), 0).verdicts["j-600"] == Verdict(
        Reason.ADMISSION_GATED,
        "requests apart/greedy/a.b/c=299, as other gangs do: at most 256 host ports and anti-affinities that several "
        "gangs request are scheduled at a time",
        gate=Gate.EXCLUSIVE_RESOURCE,
    )
    for gang in pairs[:2]:
        ledger.remove_pending(gang.id)
    assert f"apart/greedy/a.b/c={MAX_CONTENDED - 1}" in columns(ledger)
    assert len(columns(ledger)) == MAX_CONTENDED
