"""Reservations of blocked gangs hold against growth, backfill and preemption, and in what reasons say."""

from dataclasses import replace

from gangs import admitted, demand, ledger_of, node, nodes, running, waiting

from windlass.core.cycle.scheduler import schedule
from windlass.core.explain.alternatives import find_alternatives
from windlass.core.explain.start_estimate import expected_start
from windlass.core.ledger import Ledger
from windlass.core.model.gang import RunningGang, requeue_gang
from windlass.core.model.job import Match
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.reasons import StartCertainty
from windlass.core.model.reservation import Reservation
from windlass.core.model.status import Placement

NOW, HOUR = 10_000_000, 3_600_000


def elastic(number: int, where: dict[str, int], least: int, most: int, **more) -> RunningGang:
    run = replace(running(number, where), **more)
    return replace(run, demands=(replace(run.demands[0], min_count=least, max_count=most),))


def with_window(ledger: Ledger, machines, *windows: Reservation) -> Ledger:
    ledger.set_cluster(machines, [], None, Policy(), windows)
    return ledger


def test_a_gang_does_not_grow_onto_nodes_that_are_reserved_for_others() -> None:
    window = Reservation("repair", ("n2",), NOW + HOUR, NOW + 2 * HOUR)
    endless, short = elastic(1, {"n1": 4}, 1, 8), elastic(1, {"n1": 4}, 1, 8, ends_by=NOW + HOUR)
    grown = {}
    for run in (endless, short):
        plan = schedule(with_window(ledger_of(nodes(2, gpu=4), run), nodes(2, gpu=4), window).snapshot(), NOW)
        grown[run.ends_by] = [len(resize.placement.nodes["worker"]) for resize in plan.resizes]
    assert grown == {None: [], NOW + HOUR: [8]}, "it may, if it ends before the reservation begins"


def test_a_gang_does_not_grow_onto_nodes_of_a_gang_with_a_quota_claim() -> None:
    queues = [Queue("default", {"gpu": 10})]
    runs = elastic(1, {"n1": 1}, 1, 4, ends_by=NOW + HOUR), running(2, {"n2": 2})
    ledger = ledger_of(nodes(2, gpu=4), *runs, waiting(3, demand(2, 3)), queues=queues)
    assert schedule(ledger.snapshot(), NOW).resizes == ()


def test_a_shrinking_gang_releases_after_its_grace_and_not_at_its_end() -> None:
    shrinking = elastic(1, {"n1": 4}, 2, 4, ends_by=NOW + 10 * HOUR, grace=30_000)
    shrinking = replace(shrinking, resize_to=Placement({"worker": ("n1", "n1")}), resized_at=NOW - 10_000)
    first, short = waiting(3, demand(2, 2), priority=1), waiting(4, demand(1), walltime=HOUR)
    ledger = ledger_of(nodes(2, gpu=4), shrinking, running(2, {"n2": 2}), first, short)
    plan = schedule(ledger.snapshot(), NOW)
    assert plan.verdicts["j-3"].eta == NOW + 20_000
    assert admitted(plan) == {}, "j-4 would still run then, on what is kept for j-3"


def test_a_gang_is_expected_when_a_reservation_ends() -> None:
    machines, gang = nodes(1, gpu=4), waiting(1, demand(1, 4))
    window = Reservation("repair", ("n1",), NOW - HOUR, NOW + HOUR)
    ledger = with_window(ledger_of(machines, gang), machines, window)
    assert expected_start(ledger.snapshot(), gang, NOW) == NOW + HOUR


def test_an_elastic_gang_below_its_minimum_shows_the_shortage() -> None:
    gang = waiting(2, replace(demand(4), min_count=2))
    found = find_alternatives(ledger_of(nodes(1, gpu=2), running(1, {"n1": 1}), gang).snapshot(), gang, NOW)
    assert [(each.change, each.demands[0].min_count) for each in found] == [("1 replica instead of 4", 1)]


AT_ONCE = Policy(min_runtime=0)


def preempted(ledger: Ledger, machines, queues=()) -> list[str]:
    ledger.set_cluster(machines, queues, None, AT_ONCE)
    return [preemption.job_id for preemption in schedule(ledger.snapshot(), NOW).preemptions]


def test_no_gang_is_stopped_that_would_go_first_again() -> None:
    queues = [Queue("all"), Queue("a", {"gpu": 6}, "all"), Queue("b", {"gpu": 6}, "all")]
    borrower = replace(running(1, {"n1": 1, "n2": 1, "n3": 1}, gpu=3, queue="b"), priority=2, since=1)
    small = waiting(2, demand(1, 3), queue="a")
    ledger = ledger_of(nodes(3, gpu=4), borrower, small, queues=queues)
    assert preempted(ledger, nodes(3, gpu=4), queues) == ["r-1"]
    # j-3 goes before j-2 in their queue, but r-1 goes before j-3: so r-1 would start again, and be preempted again
    ledger.add_pending(waiting(3, demand(3, 4), queue="a", priority=2))
    assert preempted(ledger, nodes(3, gpu=4), queues) == []


def test_a_gang_reclaims_its_queues_own_quota_past_a_larger_one_ahead() -> None:
    queues = [Queue("all"), Queue("a", {"gpu": 4}, "all"), Queue("b", {"gpu": 4}, "all")]
    borrowers = [replace(running(n, {f"n{n}": 2}, queue="b"), priority=1) for n in (1, 2, 3, 4)]
    larger, small = waiting(5, demand(3, 2), queue="a"), waiting(6, demand(1, 2), queue="a")
    ledger = ledger_of(nodes(4, gpu=2), *borrowers, larger, small, queues=queues)
    assert preempted(ledger, nodes(4, gpu=2), queues) == ["r-1"]
    ledger.add_pending(requeue_gang(borrowers[0], NOW))
    assert admitted(schedule(ledger.snapshot(), NOW)) == {"j-6": ("n1",)}, "r-1 would borrow what it gave back"


def test_no_gang_is_stopped_if_an_earlier_one_would_get_the_nodes() -> None:
    victim = running(1, {"n1": 1}, gpu=8)
    others = [replace(running(n, {f"n{n}": 1}, gpu=8, ends_by=NOW + n * HOUR), priority=9) for n in (2, 3)]
    second = waiting(5, demand(1, 8), priority=9)
    assert preempted(ledger_of(nodes(3), victim, *others, second), nodes(3)) == ["r-1"]
    # with n1 free, j-4 would reserve n1 and n2, and j-5 could not have n1
    ledger = ledger_of(nodes(3), victim, *others, waiting(4, demand(2, 8), priority=9), second)
    assert preempted(ledger, nodes(3)) == []


def test_no_gang_is_stopped_for_nodes_that_are_reserved_for_another_by_then() -> None:
    machines = [node("n0", zone="t"), node("n1", zone="t"), node("n2", zone="both"), node("n3", zone="f")]
    first, second = (replace(demand(2, 8), affinity=((Match("zone", "In", (zone, "both")),),)) for zone in ("f", "t"))
    victim = replace(running(1, {"n1": 8}), grace=30_000)
    for start, gone in ((20_000, []), (50_000, ["r-1"])):
        others = (running(0, {"n0": 8}), running(2, {"n3": 8}, ends_by=NOW + start))
        runs = (victim, *(replace(run, priority=9) for run in others))
        gangs = waiting(3, first, priority=2), waiting(4, second, priority=1, walltime=10_000)
        assert preempted(ledger_of(machines, *runs, *gangs), machines) == gone, start


def test_usage_of_victims_is_not_counted_beside_the_claim_of_their_taker() -> None:
    machines = [node("n1", 4, zone="a"), node("n2", 4)]
    queues = [Queue("default", {"gpu": 8})]
    runs = replace(running(1, {"n1": 4}), grace=30_000), replace(running(2, {"n2": 2}), priority=9)
    ledger = ledger_of(machines, *runs, waiting(3, demand(1, 4, zone="a"), priority=1), waiting(4, demand(1, 2)))
    assert preempted(ledger, machines, queues) == ["r-1"]
    assert admitted(schedule(ledger.snapshot(), NOW)) == {"j-4": ("n2",)}, "4 for r-1 or j-3, 2 for r-2, 2 for j-4"
    ledger.hold(replace(runs[0], stopping=True, ends_by=NOW + 30_000))
    assert admitted(schedule(ledger.snapshot(), NOW)) == {"j-4": ("n2",)}


def test_only_the_first_gang_of_a_shared_limit_has_a_bound() -> None:
    machines = [node("a1", 4, zone="a"), node("b1", 4, zone="b")]
    runs = running(1, {"a1": 4}, ends_by=NOW + 1_000), running(2, {"b1": 4}, ends_by=NOW + 1_000)
    gangs = [waiting(n, demand(1, 4, zone=zone), user="ada", walltime=HOUR) for n, zone in ((3, "a"), (4, "b"))]
    certainties = {}
    for queue in (Queue("default"), Queue("default", user_running=1)):
        verdicts = schedule(ledger_of(machines, *runs, *gangs, queues=[queue]).snapshot(), NOW).verdicts
        certainties[queue.user_running] = [verdicts[gang.id].certainty for gang in gangs]
    assert certainties == {
        0: [StartCertainty.BOUND, StartCertainty.BOUND],
        1: [StartCertainty.BOUND, StartCertainty.EXPECTED],
    }


def test_a_gang_that_another_queue_may_overtake_has_no_bound() -> None:
    run = running(1, {"n1": 8}, ends_by=NOW + 1_000, queue="a")
    mine, other = waiting(3, demand(1, 8), queue="b", walltime=HOUR), waiting(2, demand(1, 8), queue="a")
    queues = [Queue("a"), Queue("b")]
    certainties = []
    for gangs in ([mine], [mine, other], [replace(mine, priority=1), other]):
        verdicts = schedule(ledger_of(nodes(1), run, *gangs, queues=queues).snapshot(), NOW).verdicts
        certainties.append(verdicts["j-3"].certainty)
    assert certainties == [StartCertainty.BOUND, StartCertainty.EXPECTED, StartCertainty.BOUND]


def test_past_usage_is_dropped_with_the_half_life() -> None:
    ledger = ledger_of(nodes(1), running(1, {"n1": 8}), queues=[Queue("default", half_life=1_000)])
    ledger.accrue_usage(0)
    ledger.accrue_usage(10_000)
    assert ledger.past_usage
    ledger.set_cluster(nodes(1), [Queue("default")])
    ledger.accrue_usage(20_000)
    assert not ledger.past_usage, "nor does it count for ever, as it stood then"


def test_a_preempting_gang_is_expected_when_its_victims_are_gone() -> None:
    gang = waiting(2, demand(1, 8), priority=1)
    ledger = ledger_of(nodes(1), replace(running(1, {"n1": 8}), grace=30_000), gang)
    assert schedule(ledger.snapshot(), NOW).verdicts["j-2"].eta == NOW + 30_000
    assert expected_start(ledger.snapshot(), gang, NOW) == NOW + 30_000
