from dataclasses import replace

import pytest
from gangs import demand, ledger_of, node, nodes, running, waiting

from windlass.core.cycle.scheduler import schedule
from windlass.core.explain.explanation import CapacityHolder, NodeView, explain
from windlass.core.model.gang import start_gang
from windlass.core.model.job import TopologyRequest
from windlass.core.model.queue import Queue
from windlass.core.model.reasons import Reason
from windlass.core.model.status import Placement
from windlass.core.placement.elastic_resizing import surplus_replicas


def explained(job_id, *gangs, machines=None, queues=(), now=0):
    return explain(ledger_of(machines or nodes(2), *gangs, queues=queues).snapshot(), job_id, now)


def test_an_explanation_agrees_with_the_plan():
    snapshot = ledger_of(
        nodes(2), running(1, {"n1": 8}, ends_by=50), *(waiting(number, demand(2, 8)) for number in (2, 3))
    ).snapshot()
    plan = schedule(snapshot, 0)
    for position, job_id in enumerate(plan.order, start=1):
        found = explain(snapshot, job_id, 0)
        assert found.verdict == plan.verdicts[job_id]
        assert (found.position, len(found.ahead)) == (position, position - 1)


def test_node_views_show_free_amounts_or_the_cause_of_exclusion():
    machines = [
        node("n1", zone="a"),
        node("n2", zone="a"),
        node("n3", zone="a", cordoned="Xid 79"),
        node("n4", zone="b"),
        node("n5", 4, zone="a"),
    ]
    found = explained("j-2", running(1, {"n2": 5}), waiting(2, demand(2, 8, zone="a")), machines=machines)
    assert (found.role, found.resource) == ("worker", "gpu")
    assert found.nodes == (
        NodeView("n1", fits=1, free=8, capacity=8),
        NodeView("n2", fits=0, free=3, capacity=8),
        NodeView("n3", fits=0, free=8, capacity=8, cause="cordoned (Xid 79)"),
        NodeView("n4", fits=0, free=8, capacity=8, cause="label zone=a"),
        NodeView("n5", fits=0, free=4, capacity=4, cause="too small"),
    )


def test_nodes_that_a_gang_ahead_waits_for_are_shown_as_held_for_it():
    found = explained("j-3", running(1, {"n1": 8}), waiting(2, demand(2, 8)), waiting(3, demand(1, 1)))
    assert [view.held_for for view in found.nodes] == ["j-2", "j-2"]
    assert (found.verdict.behind, found.ahead, found.frees) == ("j-2", ("j-2",), ())


def test_holders_of_missing_capacity_are_listed_with_their_ends():
    found = explained(
        "j-9",
        running(1, {"n1": 4}, ends_by=300),
        running(2, {"n1": 1, "n2": 2}),
        running(3, {"n2": 2}, gpu=2, ends_by=100),
        running(4, {"m1": 8}, ends_by=1),
        waiting(9, demand(2, 8, zone="a")),
        machines=[node("m1"), node("n1", zone="a"), node("n2", zone="a")],
    )
    assert found.frees == (
        CapacityHolder("r-3", 100, 4, (("n2", 4),)),
        CapacityHolder("r-1", 300, 4, (("n1", 4),)),
        CapacityHolder("r-2", None, 3, (("n1", 1), ("n2", 2))),
    )


def test_the_holders_of_missing_quota_are_of_the_same_queue():
    found = explained(
        "j-9",
        running(1, {"n1": 6}, queue="small", ends_by=70),
        running(2, {"n2": 4}, ends_by=10),
        waiting(9, demand(3), queue="small"),
        queues=[Queue("small", {"gpu": 8})],
    )
    assert found.frees == (CapacityHolder("r-1", 70, 6, (("n1", 6),)),)
    assert found.verdict.reason is Reason.WAITING_FOR_QUOTA


def test_an_elastic_gang_waits_for_its_minimum():
    elastic = (replace(demand(4), min_count=2),)
    runs = running(1, {"n1": 7}, ends_by=70), running(2, {"n2": 8}, queue="small", ends_by=50)
    small = [Queue("small", {"gpu": 8})]
    waits_for_quota = explained("j-9", *runs, waiting(9, *elastic, queue="small"), queues=small)
    assert [freeing.job_id for freeing in waits_for_quota.frees] == ["r-2"]
    waits_behind = explained(
        "j-9", running(1, {"n1": 6}), waiting(3, demand(1, 8)), waiting(9, *elastic), machines=nodes(1)
    )
    assert waits_behind.verdict.behind == "j-3"
    assert waits_behind.frees == (), "there is room for two, which are enough"


@pytest.mark.parametrize(
    ("near", "message"),
    [
        (
            TopologyRequest("rack", slice=2),
            "role worker is not resized while it runs: its replicas are in slices of 2, each in one rack",
        ),
        (
            TopologyRequest("rack", spread=True),
            "role worker is not resized while it runs: its replicas are spread evenly by rack",
        ),
        (TopologyRequest("rack"), ""),
    ],
)
def test_a_fixed_size_elastic_gang_shows_the_reason(near, message):
    elastic = replace(demand(4), min_count=2, max_count=8, topology=near)
    gang, fixed = waiting(1, elastic), waiting(2, replace(elastic, min_count=0, max_count=0))
    ledger = ledger_of([node("n1", place=("r1",))], gang, fixed, levels=("rack",))
    assert [explain(ledger.snapshot(), job_id, 0).keeps_its_size for job_id in ("j-1", "j-2")] == [message, ""]
    run = start_gang(gang, Placement({"worker": ("n1",) * 4}), 0)
    assert (surplus_replicas(run) == 0) == bool(message)


def test_a_gated_gang_has_its_gate_and_no_position():
    found = explained("j-1", waiting(1, demand(1), not_before=500))
    assert found.verdict.reason is Reason.ON_HOLD
    assert (found.position, found.ahead, found.not_before, found.would_start) == (None, (), 500, ())
    assert found.expected == 500


def test_a_gang_that_starts_now_has_no_verdict():
    found = explained("j-1", waiting(1, demand(1)))
    assert (found.verdict, found.position, found.expected, found.would_start) == (None, None, 0, ())


def test_a_gang_that_starts_now_shows_its_nodes_and_the_deciding_keys():
    machines = [node("n1", 8), node("n2", 4), node("n3", 4), node("n4", 8)]
    runs = running(1, {"n4": 8}, ends_by=50)
    (choice,) = explained("j-3", runs, waiting(2, demand(2, 8)), waiting(3, demand(1, 4)), machines=machines).chosen
    assert choice.nodes == (("n2", 1),)
    assert [(one.node, one.decided_by) for one in choice.candidates] == [("n2", ""), ("n3", "row")], "n1 is j-2's"
    assert explained("j-2", runs, waiting(2, demand(2, 8)), machines=machines).chosen == ()


def test_several_roles_show_nodes_and_no_candidates():
    roles = demand(1, 4, role="chief"), demand(2, 2)
    found = explained("j-1", waiting(1, *roles)).chosen
    assert [(each.role, each.nodes, each.candidates) for each in found] == [
        ("chief", (("n1", 1),), ()),
        ("worker", (("n1", 2),), ()),
    ]


def test_a_gang_that_requests_nothing_and_cannot_start_is_explained():
    found = explained("j-1", waiting(1, demand(1, 0, zone="a")))
    assert (found.resource, found.frees) == ("", ())
    assert (
        found.verdict.message
        == "needs nothing on one node: no node could take a replica, however empty; 2 nodes lost to label zone=a"
    )


def test_a_gang_of_several_replicas_without_resources_asks_for_replicas():
    message = explained("j-1", waiting(1, demand(2, 0, zone="a"))).verdict.message
    assert message.startswith("needs 2 replicas as one gang: ")


def test_the_second_gang_of_a_class_has_the_verdict_of_the_first():
    small = Queue("small", {"gpu": 8})
    ahead = waiting(2, demand(6), queue="small")
    twins = [waiting(number, demand(2), queue="small") for number in (3, 4)]
    found = explained("j-4", running(1, {"n1": 4}, queue="small"), ahead, *twins, queues=[small])
    assert (found.verdict.behind, found.ahead) == ("j-2", ("j-2", "j-3"))


def test_the_role_is_that_of_the_verdict():
    busy = running(1, {"n1": 8, "n2": 8})
    found = explained("j-2", busy, waiting(2, demand(1, 8, role="chief"), demand(3, 1, zone="mars")))
    assert found.verdict.message.startswith("needs 3×1 gpu for its role worker")
    assert found.role == "worker"
    assert [view.cause for view in found.nodes] == ["label zone=mars"] * 2


@pytest.mark.parametrize("job_id", ["r-1", "x"])
def test_a_job_that_does_not_wait_raises_key_error(job_id):
    with pytest.raises(KeyError, match=job_id):
        explained(job_id, running(1, {"n1": 1}))
