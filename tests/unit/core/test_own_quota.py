"""Gangs that are not preemptible use no quota of another queue: it could not be reclaimed from them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gangs import admitted, demand, ledger_of, nodes, running, waiting

from windlass.core.cycle.scheduler import schedule
from windlass.core.explain.admission_check import admission_refusal
from windlass.core.model.job import Job, Role
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.reasons import Reason
from windlass.core.queues.fair_share import Shares, can_reclaim
from windlass.core.queues.queue_tree import tree_of
from windlass.core.queues.quota import exceeds_own_quota
from windlass.core.queues.usage import QueueUsage

QUEUES = (Queue("all"), Queue("a", {"gpu": 4}, parent="all"), Queue("b", {"gpu": 4}, parent="all"))


NO_BORROWING = "it is not preemptible, so it may not borrow, and queue b has 4 gpu of its own"
AT_ONCE = Policy(min_runtime=0)


def plan_of(*gangs, queues=QUEUES, policy=AT_ONCE):
    ledger = ledger_of(nodes(1), *gangs, queues=queues)
    ledger.set_cluster(nodes(1), queues, None, policy)
    return schedule(ledger.snapshot(), 10)


def firm(number, replicas, queue="b", **more):
    return waiting(number, demand(replicas, **more), queue=queue, preemptible=False)


def test_a_gang_that_is_not_preemptible_borrows_nothing() -> None:
    plan = plan_of(firm(1, 8))
    assert admitted(plan) == {}
    verdict = plan.verdicts["j-1"]
    assert verdict.reason is Reason.EXCEEDS_MAX_QUOTA
    assert verdict.message == f"needs 8 gpu: {NO_BORROWING}"
    assert list(admitted(plan_of(waiting(1, demand(8), queue="b")))) == ["j-1"]


def test_it_uses_its_queues_own_quota_and_waits_for_more_of_it() -> None:
    held = running(1, {"n1": 3}, queue="b", preemptible=False)
    plan = plan_of(held, firm(2, 2), firm(3, 1))
    assert admitted(plan) == {}  # the claim of the first is kept
    assert plan.verdicts["j-2"].reason is Reason.WAITING_FOR_QUOTA
    assert plan.verdicts["j-2"].message == (f"needs 2 gpu: {NO_BORROWING}, of which such jobs hold 3")
    assert list(admitted(plan_of(held, firm(2, 1)))) == ["j-2"]
    other = running(4, {"n1": 4}, queue="b")
    assert list(admitted(plan_of(held, other, firm(2, 1)))) == ["j-2"]  # the other may be stopped, so it borrows


def test_the_owner_of_a_quota_gets_it_whatever_others_have_submitted() -> None:
    plan = plan_of(firm(1, 4), waiting(2, demand(4), queue="b"))
    assert list(admitted(plan)) == ["j-1", "j-2"]  # the second borrows
    stays, leaves = (running(number, {"n1": 4}, queue="b") for number in (1, 2))
    plan = plan_of(replace(stays, preemptible=False), leaves, waiting(3, demand(4), queue="a"))
    assert [each.job_id for each in plan.preemptions] == ["r-2"]


def test_it_does_not_grow_into_lent_quota() -> None:
    elastic = replace(demand(4), min_count=1, max_count=8)
    plan = plan_of(waiting(1, elastic, queue="b", preemptible=False))
    assert len(admitted(plan)["j-1"]) == 4
    held = replace(running(1, {"n1": 4}, queue="b"), demands=(elastic,), preemptible=False)
    at_once = Policy(min_runtime=0, resize_interval=0)
    assert plan_of(held, policy=at_once).resizes == ()
    assert len(plan_of(replace(held, preemptible=True), policy=at_once).resizes) == 1


def test_equal_gangs_of_which_one_is_not_preemptible_are_decided_apart() -> None:
    assert list(admitted(plan_of(firm(1, 8), waiting(2, demand(8), queue="b")))) == ["j-2"]


def test_a_submission_that_would_have_to_borrow_is_refused_with_what_fits() -> None:
    snapshot = ledger_of(nodes(1), queues=QUEUES).snapshot()
    job = Job("x", (Role("worker", 8, resources={"gpu": 1}),), queue="b")
    assert admission_refusal(snapshot, job) is None
    refusal = admission_refusal(snapshot, replace(job, preemptible=False))
    assert refusal is not None
    assert "may not borrow, and queue b has 4 gpu of its own; largest gang that fits: 4 replicas" in refusal.message


TREES = [
    ((Queue("r", {"gpu": 8}), Queue("a", parent="r"), Queue("b", parent="r")), "b", 8, ""),
    ((Queue("r", {"gpu": 4}), Queue("a", {"gpu": 4}, parent="r"), Queue("b", parent="r")), "b", 1, "b"),
    (
        (Queue("r"), Queue("a", {"gpu": 4}, parent="r"), Queue("d", {"gpu": 4}, parent="r"), Queue("t", parent="d")),
        "t",
        4,
        "",
    ),
    (
        (Queue("r"), Queue("a", {"gpu": 4}, parent="r"), Queue("d", {"gpu": 4}, parent="r"), Queue("t", parent="d")),
        "t",
        5,
        "d",
    ),
    ((Queue("r", {"gpu": 2}), Queue("a", {"gpu": 4}, parent="r")), "r", 2, ""),
    ((Queue("r", {"gpu": 2}), Queue("a", {"gpu": 4}, parent="r")), "r", 3, "r"),
]


@pytest.mark.parametrize(("queues", "queue", "gpus", "borrower"), TREES)
def test_lent_is_what_another_queue_could_reclaim(queues, queue, gpus, borrower) -> None:
    named = {each.name: each for each in queues}
    usage = QueueUsage(tree_of(named), {}, {})
    assert exceeds_own_quota(usage, queue, {"gpu": gpus})[1] == borrower
    usage.add(queue, "", {"gpu": gpus})
    shares = Shares(usage, {"gpu": 16_000}, {})
    takers = [name for name in named if can_reclaim(shares, name, queue, {"gpu": 1}, {"gpu": 1})]
    assert bool(takers) == bool(borrower)
