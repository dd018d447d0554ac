from dataclasses import replace

from gangs import admitted, demand, ledger_of, nodes, running, waiting

from windlass.core.cycle.scheduler import schedule
from windlass.core.model.gang import Demand
from windlass.core.model.queue import Queue
from windlass.core.model.reasons import Reason
from windlass.core.queues.queue_tree import tree_of
from windlass.core.queues.quota import claim_queue

SMALL = Queue("small", {"gpu": 8, "cpu": 4000})


def plan_of(*gangs, queues=(SMALL,), machines=4):
    return schedule(ledger_of(nodes(machines, cpu=8000), *gangs, queues=queues).snapshot(), 0)


def test_a_queue_never_holds_more_than_its_quota():
    plan = plan_of(running(1, {"n1": 6}, queue="small"), waiting(2, demand(3), queue="small"))
    assert admitted(plan) == {}
    verdict = plan.verdicts["j-2"]
    assert verdict.reason is Reason.WAITING_FOR_QUOTA
    assert verdict.message == "needs 3 gpu: queue small holds 6 of the 8 it may hold"
    assert (verdict.resource, verdict.wanted, verdict.free) == ("gpu", 3, 2)


def test_excess_usage_of_running_jobs_counts_for_the_queue_its_parents_and_the_user():
    queues = (Queue("all", {"cpu": 4000}), Queue("team", parent="all", excess={"ada": {"cpu": 3000}}))
    plan = plan_of(waiting(1, demand(1, cpu=2000), queue="team"), queues=queues)
    assert (
        plan.verdicts["j-1"].message
        == "needs 2 cpu: queue team has no cpu of its own; its cohort all has 1 of its 4 left"
    )
    assert list(admitted(plan_of(waiting(1, demand(1, cpu=1000), queue="team"), queues=queues))) == ["j-1"]
    limited = Queue("team", user_limits={"cpu": 4000}, excess={"ada": {"cpu": 3000}})
    gangs = [waiting(number, demand(1, cpu=2000), queue="team", user=user) for number, user in enumerate(("ada", "bo"))]
    assert list(admitted(plan_of(*gangs, queues=[limited]))) == ["j-1"]


def test_gangs_that_start_in_the_same_plan_count():
    plan = plan_of(waiting(1, demand(5), queue="small"), waiting(2, demand(4), queue="small"))
    assert list(admitted(plan)) == ["j-1"]


def test_a_queue_without_a_quota_and_the_undeclared_default_queue_have_no_limit():
    plan = plan_of(waiting(1, demand(9)), waiting(2, demand(9), queue="open"), queues=[Queue("open")])
    assert list(admitted(plan)) == ["j-1", "j-2"]


def test_a_gang_larger_than_its_queue_blocks_no_gang():
    plan = plan_of(waiting(1, demand(9), queue="small"), waiting(2, demand(8), queue="small"))
    assert plan.verdicts["j-1"].reason is Reason.EXCEEDS_MAX_QUOTA
    assert plan.verdicts["j-1"].message == "asks for 9 gpu, queue small may hold 8"
    assert list(admitted(plan)) == ["j-2"]


def test_no_later_gang_uses_up_the_quota_that_a_gang_waits_for():
    plan = plan_of(
        running(1, {"n1": 4}, queue="small"), waiting(2, demand(6), queue="small"), waiting(3, demand(2), queue="small")
    )
    assert admitted(plan) == {}
    assert plan.verdicts["j-3"].behind == "j-2"
    assert plan.verdicts["j-3"].message == "would fit now, but j-2 goes first: quota of small is kept for it"


def test_a_gang_that_does_not_touch_claimed_quota_starts():
    frugal = demand(2, 0, cpu=1000)
    greedy = demand(4, 0, cpu=1000)
    full = running(1, {"n1": 8}, queue="small")
    assert list(admitted(plan_of(full, waiting(2, demand(1), queue="small"), waiting(3, frugal, queue="small")))) == [
        "j-3"
    ]
    blocked = waiting(2, demand(1, 1, cpu=1000), queue="small")
    assert admitted(plan_of(full, blocked, waiting(3, greedy, queue="small"))) == {}


def test_a_queue_that_waits_for_its_quota_blocks_no_other_queue():
    plan = plan_of(
        running(1, {"n1": 8}, queue="small"), waiting(2, demand(1, 8), queue="small"), waiting(3, demand(3, 8))
    )
    assert list(admitted(plan)) == ["j-3"]


def test_quota_is_kept_for_a_gang_that_waits_for_nodes():
    taken = running(1, {"n1": 8, "n2": 8})
    wants_zone_a = waiting(2, demand(1, 8, zone="a"), queue="small")
    wants_any = waiting(3, demand(1, 4), queue="small")
    machines = [*nodes(2, zone="a"), *nodes(3)[2:]]
    plan = schedule(ledger_of(machines, taken, wants_zone_a, wants_any, queues=[SMALL]).snapshot(), 0)
    assert admitted(plan) == {}
    assert plan.verdicts["j-3"].behind == "j-2"


def test_a_gang_of_a_deleted_queue_waits_with_that_reason():
    plan = plan_of(waiting(1, demand(1), queue="gone"), waiting(2, demand(1)))
    assert plan.verdicts["j-1"].reason is Reason.MISCONFIGURED
    assert list(admitted(plan)) == ["j-2"]


LAB = (Queue("lab"), Queue("a", {"gpu": 4}, "lab"), Queue("b", {"gpu": 4}, "lab"))


def test_a_gang_above_its_queues_own_quota_does_not_block_smaller_ones():
    held = running(1, {"n1": 4}, queue="b")
    plan = plan_of(held, waiting(2, demand(6), queue="a"), waiting(3, demand(4), queue="a"), queues=LAB)
    assert list(admitted(plan)) == ["j-3"]
    assert claim_queue(tree_of({queue.name: queue for queue in LAB}), "a", {"gpu": 6}) == "lab"


def test_no_other_gang_borrows_before_it_does():
    queues = (*LAB, Queue("c", parent="lab"))
    held = running(1, {"n1": 4}, queue="b")
    plan = plan_of(held, waiting(2, demand(6), queue="a"), waiting(3, demand(1), queue="c"), queues=queues)
    assert admitted(plan) == {}
    assert plan.verdicts["j-3"].behind == "j-2"


def test_two_queues_of_one_cohort_do_not_both_get_what_is_left():
    plan = plan_of(waiting(1, demand(6), queue="a"), waiting(2, demand(6), queue="b"), queues=LAB)
    assert list(admitted(plan)) == ["j-1"]
    assert (
        plan.verdicts["j-2"].message == "needs 6 gpu: queue b holds 0 of its 4 gpu; its cohort lab has 2 of its 8 left"
    )


def test_parts_of_gpus_count_in_thousandths_and_add_up_to_whole_ones_exactly():
    # KAI-Scheduler#2209: 0.1 and 0.2 of a quota of 0.3 were too much. #1369: only one of several parts was counted.
    shared = [replace(machine, sharing="milli") for machine in nodes(2)]
    part = Demand("worker", 3, {"gpu-milli": 500})
    gangs = [waiting(number, part, queue="small") for number in (1, 2)]
    ledger = ledger_of(shared, *gangs, waiting(3, demand(1), queue="small"), queues=[Queue("small", {"gpu": 3})])
    plan = schedule(ledger.snapshot(), 0)
    assert list(admitted(plan)) == ["j-1", "j-2"]
    assert plan.verdicts["j-3"].message == "needs 1 gpu: queue small holds 3 of the 3 it may hold"
