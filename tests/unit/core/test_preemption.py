"""Victims: the cheapest set that suffices, and no gang if none does."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from gangs import demand, ledger_of, node, nodes, running, waiting

from windlass.core.cycle.scheduler import schedule
from windlass.core.model.gang import PendingGang, RunningGang
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.status import Placement
from windlass.core.preemption.victim_search import Eviction, SearchContext, find_victims
from windlass.core.preemption.victims import VictimCandidates
from windlass.core.queues.queue_tree import tree_of
from windlass.core.queues.usage import QueueUsage

NOW = 1_000_000
AT_ONCE = Policy(min_runtime=0)


def evicted(
    machines, gang: PendingGang, *runs: RunningGang, queues: Iterable[Queue] = (), policy: Policy = AT_ONCE, earlier=()
) -> Eviction | None:
    """The eviction for a gang among these running ones."""
    ledger = ledger_of(machines, *runs, queues=queues)
    ledger.set_cluster(machines, queues, None, policy)
    snapshot = ledger.snapshot()
    usage = QueueUsage(tree_of(snapshot.queues), snapshot.usage_by_queue, snapshot.usage_by_user)
    context = SearchContext(
        snapshot, NOW, VictimCandidates(snapshot, NOW, usage), snapshot.free, usage, earlier=earlier
    )
    return find_victims(context, gang)


def stopped(eviction: Eviction | None) -> set[str]:
    assert eviction is not None
    return {preemption.job_id for preemption in eviction.preemptions}


def low(number: int, where: dict[str, int], **more) -> RunningGang:
    return replace(running(number, where, gpu=more.pop("gpu", 1)), **{"admitted_at": NOW - 600_000, **more})


def elastic(number: int, where: dict[str, int], least: int, **more) -> RunningGang:
    run = low(number, where, **more)
    return replace(run, demands=(replace(run.demands[0], min_count=least, max_count=16),))


def test_a_gang_of_higher_priority_preempts_one_of_lower() -> None:
    found = evicted(nodes(1, gpu=4), waiting(9, demand(1, 4), priority=1), low(1, {"n1": 4}))
    assert stopped(found) == {"r-1"}
    assert found.preemptions[0].reason == "it has a lower priority"
    assert found.placed.placement == Placement({"worker": ("n1",)})


def test_no_gang_is_stopped_for_one_of_equal_priority() -> None:
    assert evicted(nodes(1, gpu=4), waiting(9, demand(1, 4)), low(1, {"n1": 4})) is None


def test_a_gang_that_counts_towards_the_limit_is_stopped() -> None:
    queues = [Queue("default", user_limits={"gpu": 4})]
    runs = [low(n, {f"n{n}": 4}, user=user) for n, user in ((1, "ada"), (2, "bob"))]
    ledger = ledger_of(nodes(3), *runs, waiting(9, demand(1, 4), priority=1, user="bob"), queues=queues)
    ledger.set_cluster(nodes(3), queues, None, Policy(min_runtime=600_001))
    young = schedule(ledger.snapshot(), NOW)
    assert (young.preemptions, young.due) == ((), NOW + 1), "time alone will help"
    assert [each.job_id for each in schedule(ledger.snapshot(), NOW + 1).preemptions] == ["r-2"]


@pytest.mark.parametrize(("queue", "expected"), [("default", NOW + 1), ("other", None)])
def test_only_young_elastic_gangs_of_its_own_queue_may_shrink_later_for_an_equal_gang(queue, expected) -> None:
    ledger = ledger_of(nodes(1), elastic(1, {"n1": 4}, 1, queue=queue))
    ledger.set_cluster(nodes(1), [Queue("default"), Queue("other")], None, Policy(min_runtime=600_001))
    snapshot = ledger.snapshot()
    usage = QueueUsage(tree_of(snapshot.queues), snapshot.usage_by_queue, snapshot.usage_by_user)
    candidates = VictimCandidates(snapshot, NOW, usage)
    assert candidates.next_preemptible_at(waiting(9, demand(1, 8))) == expected


def test_a_plan_is_due_when_the_next_gang_may_be_stopped_for_unsearched_gangs() -> None:
    machines = [node(f"n{n}", kind=str(n)) for n in range(40)]
    runs = [low(n, {f"n{n}": 8}, preemptible=False) for n in range(39)]
    last = low(39, {"n39": 8}, queue="last", admitted_at=NOW - 5)
    gangs = [waiting(n, demand(1, 8, kind=str(n)), priority=2) for n in range(39)]
    ledger = ledger_of(machines, *runs, last, *gangs, waiting(39, demand(1, 8), priority=1, queue="last"))
    ledger.set_cluster(machines, [Queue("default"), Queue("last")])
    assert schedule(ledger.snapshot(), NOW).due == NOW - 5 + Policy().min_runtime


def test_no_gang_is_stopped_if_the_other_would_not_fit_even_then() -> None:
    runs = low(1, {"n1": 4}), low(2, {"n2": 4}, preemptible=False)
    assert evicted(nodes(2, gpu=4), waiting(9, demand(2, 4), priority=1), *runs) is None


def test_no_more_gangs_are_stopped_than_needed() -> None:
    runs = [low(number, {f"n{number}": 1}) for number in range(1, 11)]
    assert len(stopped(evicted(nodes(10, gpu=1), waiting(9, demand(1, 1), priority=1), *runs))) == 1


def test_a_small_gang_stays_if_a_larger_one_must_be_stopped_anyway() -> None:
    runs = low(1, {"n1": 1}), low(2, {"n1": 7})
    assert stopped(evicted(nodes(1, gpu=8), waiting(9, demand(1, 7), priority=1), *runs)) == {"r-2"}


def test_only_gangs_that_hold_usable_resources_are_stopped() -> None:
    machines = [node("n1", 4, zone="a"), node("n2", 4, zone="b")]
    found = evicted(machines, waiting(9, demand(1, 4, zone="b"), priority=1), low(1, {"n1": 4}), low(2, {"n2": 4}))
    assert stopped(found) == {"r-2"}


def test_victims_are_sorted_by_priority_then_lost_work_then_size_then_age() -> None:
    lowest = low(1, {"n1": 2}, priority=1, admitted_at=0)
    saved = low(2, {"n2": 2}, priority=2, admitted_at=0, saved_at=NOW - 5)
    fresh = low(3, {"n3": 2}, priority=2, admitted_at=NOW - 10)
    small = low(4, {"n4": 1}, priority=3, admitted_at=NOW - 30)
    one = low(5, {"n5": 1}, gpu=2, priority=3, admitted_at=NOW - 30)
    two = low(6, {"n6": 2}, priority=3, admitted_at=NOW - 30)
    young = low(7, {"n1": 1}, priority=4, admitted_at=NOW - 100, saved_at=NOW - 50)
    old = low(8, {"n1": 1}, priority=4, admitted_at=NOW - 200, saved_at=NOW - 50)
    snapshot = ledger_of(nodes(6), old, young, two, one, small, fresh, saved, lowest).snapshot()
    usage = QueueUsage(tree_of(snapshot.queues), snapshot.usage_by_queue, snapshot.usage_by_user)
    snapshot = replace(snapshot, policy=AT_ONCE)
    assert [run.id for run in VictimCandidates(snapshot, NOW, usage).by_cost] == [
        f"r-{number}" for number in range(1, 9)
    ]


def test_a_gang_that_has_not_run_for_long_enough_stays() -> None:
    young = low(1, {"n1": 4}, admitted_at=NOW - 1_000)
    assert evicted(nodes(1, gpu=4), waiting(9, demand(1, 4), priority=1), young, policy=Policy()) is None


def test_a_gang_that_fits_after_pending_releases_waits_for_them() -> None:
    leaving = low(1, {"n1": 4}, stopping=True, ends_by=NOW + 10_000)
    found = evicted(nodes(2, gpu=4), waiting(9, demand(1, 4), priority=1), leaving, low(2, {"n2": 4}))
    assert stopped(found) == set()
    assert found.at == NOW + 10_000


def test_no_gang_waits_for_releases_that_another_gang_waits_for() -> None:
    leaving = low(1, {"n1": 4}, stopping=True)
    machines, first = nodes(2, gpu=4), waiting(8, demand(1, 4), priority=1)
    before = evicted(machines, first, leaving, low(2, {"n2": 4}))
    second = evicted(machines, waiting(9, demand(1, 4), priority=1), leaving, low(2, {"n2": 4}), earlier=[before])
    assert stopped(second) == {"r-2"}
    assert second.placed.placement == Placement({"worker": ("n2",)})


def test_no_victim_is_chosen_twice() -> None:
    machines, runs = nodes(2, gpu=4), (low(1, {"n1": 4}), low(2, {"n2": 4}))
    before = evicted(machines, waiting(8, demand(1, 4), priority=1), *runs)
    second = evicted(machines, waiting(9, demand(1, 4), priority=1), *runs, earlier=[before])
    assert stopped(before) | stopped(second) == {"r-1", "r-2"}
    third = waiting(10, demand(1, 4), priority=1)
    assert evicted(machines, third, *runs, earlier=[before, second]) is None


TREE = (Queue("all"), Queue("a", {"gpu": 4}, "all"), Queue("b", {"gpu": 4}, "all"))


def test_a_queue_reclaims_borrowed_quota_whatever_the_priorities() -> None:
    runs = [low(number, {f"n{number}": 2}, queue="b", priority=5) for number in (1, 2, 3, 4)]
    found = evicted(nodes(4, gpu=2), waiting(9, demand(2, 2), queue="a"), *runs, queues=TREE)
    assert len(stopped(found)) == 2
    assert found.preemptions[0].reason == "its queue has borrowed what queue a asks for"


def test_a_queues_own_quota_is_safe_from_higher_priorities_of_other_queues() -> None:
    runs = low(1, {"n1": 4}, queue="a"), low(2, {"n2": 4}, queue="b")
    assert evicted(nodes(2, gpu=4), waiting(9, demand(2, 4), queue="a", priority=9), *runs, queues=TREE) is None


def test_queues_of_different_trees_take_nothing_from_each_other() -> None:
    run = low(1, {"n1": 4}, queue="b")
    queues = Queue("a", {"gpu": 4}), Queue("b", {"gpu": 4})
    assert evicted(nodes(1, gpu=4), waiting(9, demand(1, 4), queue="a", priority=9), run, queues=queues) is None


def test_an_elastic_gang_shrinks_as_needed_before_any_gang_is_stopped() -> None:
    runs = elastic(1, {"n1": 4}, 1), low(2, {"n2": 4})
    found = evicted(nodes(2, gpu=4), waiting(9, demand(1, 2), priority=1), *runs)
    assert stopped(found) == set()
    (resize,) = found.resizes
    assert (resize.job_id, resize.placement) == ("r-1", Placement({"worker": ("n1", "n1")}))


def test_an_elastic_gang_shrinks_for_an_equal_one_of_its_queue_but_is_not_stopped() -> None:
    found = evicted(nodes(1, gpu=4), waiting(9, demand(1, 3)), elastic(1, {"n1": 4}, 1))
    assert (stopped(found), len(found.resizes)) == (set(), 1)
    assert evicted(nodes(1, gpu=4), waiting(9, demand(1, 4)), elastic(1, {"n1": 4}, 1)) is None


def test_an_elastic_gang_that_is_stopped_does_not_shrink_as_well() -> None:
    found = evicted(nodes(1, gpu=4), waiting(9, demand(1, 4), priority=1), elastic(1, {"n1": 4}, 1))
    assert (stopped(found), found.resizes) == ({"r-1"}, ())


def test_an_elastic_gang_gives_up_the_replicas_that_help_most() -> None:
    run = elastic(1, {"n1": 2, "n2": 4}, 2)
    found = evicted(nodes(2, gpu=4), waiting(9, demand(1, 4), priority=1), run, low(2, {"n1": 2}, preemptible=False))
    assert found.resizes[0].placement == Placement({"worker": ("n1", "n1")})


def test_an_elastic_gang_preempts_others_for_its_minimum_only() -> None:
    want = replace(demand(4, 1), min_count=2, max_count=4)
    found = evicted(nodes(4, gpu=1), waiting(9, want, priority=1), *(low(n, {f"n{n}": 1}) for n in (1, 2, 3, 4)))
    assert len(stopped(found)) == 2


def test_a_gang_that_is_shrinking_already_is_waited_for() -> None:
    run = replace(elastic(1, {"n1": 4}, 1), resize_to=Placement({"worker": ("n1",)}))
    found = evicted(nodes(2, gpu=4), waiting(9, demand(1, 3), priority=1), run, low(2, {"n2": 4}))
    assert (stopped(found), found.resizes) == (set(), ())
    assert found.placed.placement == Placement({"worker": ("n1",)})


def test_a_gang_whose_eviction_was_refused_is_excluded_for_a_while():
    refused = low(1, {"n1": 4}, unevictable_until=NOW + 60_000)
    eviction = evicted(nodes(2, 4), waiting(9, demand(1, 4), priority=5), refused, low(2, {"n2": 4}))
    assert stopped(eviction) == {"r-2"}
    over = replace(refused, unevictable_until=NOW)
    assert evicted(nodes(1, 4), waiting(9, demand(1, 4), priority=5), over) is not None


def test_a_refused_eviction_is_reported_and_tried_again_later():
    refused = low(1, {"n1": 4}, unevictable_until=NOW + 60_000)
    ledger = ledger_of(nodes(1, 4), refused, waiting(9, demand(1, 4), priority=5))
    plan = schedule(ledger.snapshot(), NOW)
    assert plan.preemptions == ()
    assert plan.due == NOW + 60_000
    assert plan.verdicts["j-9"].message.endswith("; not preempted for it, as their eviction was refused: r-1")
    assert schedule(ledger.snapshot(), NOW + 60_000).preemptions[0].job_id == "r-1"
