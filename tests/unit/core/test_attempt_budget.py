"""Failed attempts of one tenant do not use up those of another: searches for victims, and backfilling."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gangs import demand, ledger_of, node, running, waiting

from windlass.core.cycle.attempt_budget import share_evenly
from windlass.core.cycle.scheduler import schedule
from windlass.core.ledger import Ledger
from windlass.core.model.gang import Demand, PendingGang, shape_of, start_gang
from windlass.core.model.plan import Plan
from windlass.core.model.queue import Queue
from windlass.core.model.reasons import Reason

HOUR = 3_600_000


def gang(number: int, queue: str, gpu: int, pool: str, *, replicas: int = 1, user: str = "", hours: int = 0):
    """No two gangs are in one equivalence class: each number requests other cpu."""
    asked = (Demand("worker", replicas, {"gpu": gpu, "cpu": number}, {"pool": pool}),)
    walltime = hours * HOUR or None
    return PendingGang(
        f"j-{number}", number, queue, 0, number, asked, shape_of(queue, asked), user=user, walltime=walltime
    )


def plan_and_start(ledger: Ledger, now: int) -> Plan:
    snapshot = ledger.snapshot()
    plan, waiting = schedule(snapshot, now), {each.id: each for each in snapshot.pending}
    for each in plan.admissions:
        ledger.hold(start_gang(waiting[each.job_id], each.placement, now))
    return plan


def lent_cluster(hopeless: int, queue: str, user: str, early: int = 0) -> Plan:
    """Queue `a` has borrowed pool x. `hopeless` gangs wait for pool y, then one of queue `c` for its own quota.

    `early` gangs of queue `b` wait for their begin time.
    """
    machines = [node(f"n{number}", cpu=90_000, pool="x") for number in range(8)] + [node("n9", cpu=90_000, pool="y")]
    tree = {"b": 48, "c": 16, "d": 8} if queue == "b" else {"b": 8, "c": 56, "d": 8}
    queues = [Queue("root"), Queue("a", {"gpu": 0}, "root"), *(Queue(q, {"gpu": n}, "root") for q, n in tree.items())]
    ledger = ledger_of(machines, gang(1, "d", 8, "y"), queues=queues)
    plan_and_start(ledger, 0)
    for number in range(2, 10):
        ledger.add_pending(gang(number, "a", 8, "x"))
    plan_and_start(ledger, 1)
    for number in range(hopeless):
        ledger.add_pending(gang(100 + number, queue, 1, "y", user=user))
    for number in range(early):
        ledger.add_pending(replace(gang(1_000 + number, "b", 1, "y"), begin=2 * HOUR))
    ledger.add_pending(gang(999, "c", 8, "x", user="ada"))
    return schedule(ledger.snapshot(), HOUR)


@pytest.mark.parametrize(("queue", "user"), [("b", ""), ("c", "eve")])
def test_hopeless_gangs_deny_no_other_queue_or_user_its_quota(queue: str, user: str) -> None:
    plan = lent_cluster(40, queue, user)
    assert [each.by for each in plan.preemptions] == ["j-999"]


def test_gangs_before_their_begin_time_have_no_share_of_the_searches() -> None:
    assert [each.by for each in lent_cluster(20, "c", "ada", early=40).preemptions] == ["j-999"]


def test_a_gang_whose_search_was_put_off_says_so() -> None:
    plan = lent_cluster(40, "c", "ada")
    assert plan.preemptions == ()
    assert plan.verdicts["j-999"].message.endswith(
        "; no gang to preempt was searched for it: too many searches for its queue have failed in this plan"
    )


def cluster_with_gap(ahead_user: str) -> Plan:
    """Node n2 is idle until a wide gang starts in ten hours; 1,001 gangs wait for n3; one of an hour fits on n2 now."""
    ledger = ledger_of(
        [*(node(name, cpu=90_000, pool="x") for name in ("n1", "n2")), node("n3", cpu=90_000, pool="y")],
        gang(1, "default", 8, "x", hours=10),
        gang(2, "default", 8, "y", hours=10),
    )
    plan_and_start(ledger, 0)
    ledger.add_pending(gang(3, "default", 8, "x", replicas=2, hours=1))
    for number in range(1_001):
        ledger.add_pending(gang(10 + number, "default", 1, "y", user=ahead_user, hours=1))
    ledger.add_pending(gang(5_000, "default", 8, "x", user="ada", hours=1))
    return schedule(ledger.snapshot(), 1)


def test_failed_attempts_of_one_user_do_not_stop_the_backfill_of_another() -> None:
    assert [each.job_id for each in cluster_with_gap("eve").admissions] == ["j-5000"]


def test_a_gang_that_was_not_tried_for_a_gap_says_so() -> None:
    plan = cluster_with_gap("ada")
    assert plan.admissions == ()
    verdict = plan.verdicts["j-5000"]
    assert verdict.reason is Reason.PENDING_EVALUATION
    assert verdict.message.startswith("not tried for the gaps yet: ")


@pytest.mark.parametrize(
    ("total", "wanted", "shares"),
    [
        (32, {"a": 100}, {"a": 32}),
        (32, {"a": 3}, {"a": 3}),
        (32, {"a": 100, "b": 100}, {"a": 16, "b": 16}),
        (32, {"a": 100, "b": 2}, {"a": 30, "b": 2}),
        (1, {"a": 1, "b": 1, "c": 1}, {"a": 0, "b": 0, "c": 1}),
    ],
)
def test_shares_that_are_not_needed_go_to_others(total: int, wanted: dict[str, int], shares: dict[str, int]) -> None:
    assert share_evenly(total, wanted) == shares


def test_equal_gangs_whose_begin_times_have_come_use_up_one_attempt() -> None:
    asked = (Demand("worker", 2, {"gpu": 3}),)
    shape = shape_of("default", asked)
    n1 = running(1, {"n1": 4}, ends_by=50 * HOUR)
    n2 = running(2, {"n2": 8}, ends_by=50 * HOUR)
    ledger = ledger_of([node("n1"), node("n2")], n1, n2, waiting(9_999, demand(1), walltime=HOUR))
    for number in range(2, 1_502):
        early = PendingGang(f"j-{number}", number, "default", 0, number, asked, shape, HOUR, begin=number)
        ledger.add_pending(early)
    ledger.open_begin_times(HOUR)
    assert [each.job_id for each in schedule(ledger.snapshot(), HOUR).admissions] == ["j-9999"]
