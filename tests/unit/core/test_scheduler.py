from dataclasses import replace

import pytest
from gangs import admitted, carry_out, demand, ledger_of, node, nodes, running, waiting

from windlass.core.cycle.scheduler import schedule
from windlass.core.invariants import plan_violations
from windlass.core.model.queue import Queue
from windlass.core.model.reasons import Reason


def plan_of(*gangs, machines=None):
    snapshot = ledger_of(machines or nodes(4), *gangs).snapshot()
    plan = schedule(snapshot, 0)
    assert plan_violations(snapshot, plan) == []
    return plan


def test_a_plan_names_the_version_it_was_made_on():
    ledger = ledger_of(nodes(1), waiting(1, demand(1)))
    plan = schedule(ledger.snapshot(), 77)
    assert (plan.version, plan.now) == (ledger.version, 77)


def test_equal_snapshots_give_equal_plans():
    gangs = [waiting(number, demand(1 + number % 3, 3)) for number in range(9)]
    there, back = plan_of(*gangs), plan_of(*reversed(gangs))
    assert there.admissions == back.admissions
    assert dict(there.verdicts) == dict(back.verdicts)
    assert list(there.order) == list(back.order)


def test_gangs_start_by_priority_and_age():
    plan = plan_of(
        waiting(1, demand(2, 8)), waiting(2, demand(2, 8)), waiting(3, demand(2, 8), priority=1), machines=nodes(4)
    )
    assert list(admitted(plan)) == ["j-3", "j-1"]
    assert list(plan.order) == ["j-2"]


def test_a_gang_that_waits_for_nodes_is_not_overtaken_on_its_reserved_nodes():
    plan = plan_of(
        running(1, {"n1": 8, "n2": 8}), waiting(2, demand(3, 8)), waiting(3, demand(1)), waiting(4, demand(1, 8))
    )
    assert admitted(plan) == {"j-3": ("n4",)}, "three nodes are enough for j-2"
    assert plan.verdicts["j-4"].behind == "j-2"
    assert list(plan.order) == ["j-2", "j-4"]


def test_other_gangs_start_on_nodes_that_it_cannot_use():
    machines = [node("a1", zone="a"), node("a2", zone="a"), node("b1", zone="b")]
    plan = plan_of(
        running(1, {"a1": 8}),
        waiting(2, demand(2, 8, zone="a")),
        waiting(3, demand(1, 1, zone="a")),
        waiting(4, demand(1, 1)),
        machines=machines,
    )
    assert admitted(plan) == {"j-4": ("b1",)}
    assert plan.verdicts["j-3"].behind == "j-2"


def test_a_gang_with_partly_contended_nodes_is_not_overtaken_on_the_others():
    machines = [node("a1", zone="a"), node("b1", zone="b"), node("b2", zone="b")]
    plan = plan_of(
        running(1, {"a1": 8, "b1": 1}),
        waiting(2, demand(1, 8, zone="a")),
        waiting(3, demand(2, 8)),
        waiting(4, demand(1, 1)),
        machines=machines,
    )
    assert admitted(plan) == {}


def test_a_gang_that_no_end_of_another_can_help_blocks_no_gang():
    plan = plan_of(waiting(1, demand(5, 8)), waiting(2, demand(1, 1, zone="mars")), waiting(3, demand(4, 8)))
    assert list(admitted(plan)) == ["j-3"]
    assert plan.verdicts["j-1"].reason is plan.verdicts["j-2"].reason is Reason.NO_MATCHING_FLAVOR


def test_a_cordoned_node_starts_nothing_and_its_gangs_run_on():
    ledger = ledger_of(nodes(2), running(1, {"n1": 2}))
    ledger.set_cluster([node("n1", cordoned="drained by root"), node("n2")], ())
    ledger.add_pending(waiting(2, demand(2, 8)))
    ledger.add_pending(waiting(3, demand(1, 8)))
    plan = carry_out(ledger)
    assert admitted(plan) == {"j-3": ("n2",)}
    assert list(ledger.snapshot().running) == ["r-1", "j-3"]
    assert plan.verdicts["j-2"].message == (
        "needs 2×8 gpu as one gang: 1 node could take a replica, 1 of 2 in all, however empty; 1 node cordoned"
    )


def test_gangs_of_equal_shape_share_one_verdict():
    plan = plan_of(running(1, {"n1": 8}), *(waiting(number, demand(4, 8)) for number in range(2, 50)))
    assert len({id(verdict) for verdict in plan.verdicts.values()}) == 1


def test_a_stream_of_small_gangs_does_not_starve_a_large_one():
    ledger = ledger_of(nodes(2), waiting(0, demand(1, 8)), waiting(1, demand(2, 8)))
    for turn in range(1, 20):
        ledger.add_pending(waiting(turn + 1, demand(1, 2)))
        carry_out(ledger, turn)
        if turn == 10:
            ledger.release("j-0")
        if "j-1" in ledger.snapshot().running:
            assert turn == 11
            return
    raise AssertionError("the large gang never started")


def test_a_cluster_without_nodes_starts_nothing():
    plan = schedule(ledger_of([], waiting(1, demand(1))).snapshot(), 0)
    assert plan.verdicts["j-1"].reason is Reason.NO_MATCHING_FLAVOR
    assert plan.verdicts["j-1"].message == "needs 1 gpu on one node: the cluster has no nodes"


def test_an_empty_queue_gives_an_empty_plan():
    plan = plan_of(running(1, {"n1": 1}))
    assert (plan.admissions, dict(plan.verdicts), list(plan.order)) == ((), {}, [])


@pytest.mark.parametrize(
    ("priority", "most", "queues"),
    [
        (0, 0, []),
        (-1, 0, []),
        (0, 9, []),
        (0, 0, [Queue("lab"), Queue("default", parent="lab")]),
    ],
    ids=["nobody", "a gang of lower priority", "an elastic gang", "a tree of queues"],
)
def test_the_shortest_gang_is_backfilled_first_even_if_others_could_be_preempted(priority, most, queues):
    """One GPU is free until j-3 gets both nodes; j-4 came before j-5 and lasts longer."""
    hour = 3_600_000
    other = replace(running(1, {"n1": 8}, ends_by=20 * hour), priority=priority, preemptible=False)
    other = replace(other, demands=(replace(other.demands[0], min_count=8 if most else 0, max_count=most),))
    first = waiting(3, demand(2, 8), walltime=hour)
    long = waiting(4, demand(1), walltime=3 * hour)
    short = waiting(5, demand(1), walltime=hour, since=hour // 2)
    ledger = ledger_of(nodes(2), other, running(2, {"n2": 7}, ends_by=9 * hour), first, long, short, queues=queues)
    assert admitted(schedule(ledger.snapshot(), hour)) == {"j-5": ("n2",)}


def test_a_backfilled_gang_may_preempt_too():
    """j-3 waits for both nodes; j-4 has the same priority and fits once a gang of lower priority has gone."""
    lasts = running(1, {"n1": 8}, ends_by=3_600_000_000, preemptible=False)
    victim = replace(running(2, {"n2": 8}, ends_by=3_600_000_000), priority=-1)
    first, brief = waiting(3, demand(2, 8), walltime=1_000), waiting(4, demand(1, 2), walltime=1_000)
    plan = schedule(ledger_of(nodes(2), lasts, victim, first, brief).snapshot(), 1_000_000)
    assert [each.job_id for each in plan.preemptions] == ["r-2"]
    assert plan.verdicts["j-4"].reason is Reason.WAITING_FOR_PREEMPTED
