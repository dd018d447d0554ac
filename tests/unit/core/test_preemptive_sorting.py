from dataclasses import replace

from gangs import admitted, demand, ledger_of, nodes, running, waiting

from windlass.core.cycle.scheduler import schedule
from windlass.core.explain.explanation import explain
from windlass.core.invariants import plan_violations
from windlass.core.ledger import Ledger
from windlass.core.model.gang import milli_gpus_of, requeue_gang, start_gang
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.reasons import Reason
from windlass.core.model.reservation import Reservation
from windlass.core.queues.orders.registry import sort_key_of

HOUR = 3_600_000


def cluster(order, *gangs, machines=2, **settings):
    """A ledger under one of the preemptive orders."""
    ledger = ledger_of(nodes(machines), *gangs)
    ledger.set_cluster(nodes(machines), (), None, Policy(order, **{"min_runtime": 0, **settings}))
    return ledger


def plan_of(ledger, now):
    snapshot = ledger.snapshot()
    plan = schedule(snapshot, now)
    assert plan_violations(snapshot, plan) == []
    return plan


def gang(number, replicas, gpu=8, **more):
    asked = demand(replicas, gpu)
    return waiting(number, asked, milli_gpus=milli_gpus_of((asked,)), **more)


def run_cycles(ledger, now):
    """Plans until no gang is stopped any more; stopped gangs are gone at once. Returns the gangs that run in the
    end."""
    while True:
        waiting_now = {each.id: each for each in ledger.snapshot().pending}
        plan = plan_of(ledger, now)
        for admission in plan.admissions:
            ledger.hold(start_gang(waiting_now[admission.job_id], admission.placement, now))
        if not plan.preemptions:
            return sorted(ledger.snapshot().running)
        for preemption in plan.preemptions:
            run = ledger.snapshot().running[preemption.job_id]
            number = int(run.id.split("-")[1])
            held = now - run.admitted_at
            again = gang(number, run.demands[0].count, walltime=run.ends_by - run.admitted_at)
            again = replace(again, run_time=run.run_time + held, service=run.service_at(now), stopped_at=now)
            ledger.add_pending(again)


def test_the_shortest_remaining_time_goes_first_even_if_another_runs():
    ledger = cluster("srtf", gang(1, 2, walltime=10 * HOUR))
    assert run_cycles(ledger, 0) == ["j-1"]
    ledger.add_pending(gang(2, 1, walltime=9 * HOUR))
    assert run_cycles(ledger, HOUR // 2) == ["j-2"]


def test_a_gang_that_is_nearly_done_stays():
    ledger = cluster("srtf", gang(1, 2, walltime=10 * HOUR))
    run_cycles(ledger, 0)
    ledger.add_pending(gang(2, 1, walltime=9 * HOUR))
    assert run_cycles(ledger, 2 * HOUR) == ["j-1"]


def test_reasons_agree_with_what_the_order_does():
    ledger = cluster("srtf", gang(1, 2, walltime=10 * HOUR, grace=30_000))
    run_cycles(ledger, 0)
    ledger.add_pending(gang(2, 2, walltime=5 * HOUR))
    ledger.add_pending(gang(3, 1, walltime=11 * HOUR))
    second, third = (explain(ledger.snapshot(), job_id, HOUR) for job_id in ("j-2", "j-3"))
    assert (second.verdict.reason, second.expected) == (Reason.WAITING_FOR_PREEMPTED, HOUR + 30_000)
    assert (second.frees, second.position, third.ahead) == ((), 1, ("j-2",))
    assert [freeing.job_id for freeing in third.frees] == ["j-2"], "j-1 stops, and waits again"
    assert third.expected == HOUR + 30_000 + 5 * HOUR + 10 * HOUR, "j-1 goes before it, and has its walltime anew"


def test_alternatives_are_tried_by_the_same_order():
    ledger = cluster("las", gang(1, 1), min_runtime=2 * HOUR)
    run_cycles(ledger, 0)
    ledger.add_pending(gang(2, 2))
    ledger.add_pending(gang(3, 1))
    assert [each.change for each in explain(ledger.snapshot(), "j-2", HOUR).would_start] == ["1 replica instead of 2"]
    assert explain(ledger.snapshot(), "j-3", HOUR).verdict is None, "las keeps nothing for who is blocked"


def test_a_gated_gang_has_no_position():
    ledger = cluster("las", gang(1, 2), gang(2, 1, not_before=HOUR), machines=1)
    plan = plan_of(ledger, 0)
    assert (list(plan.order), sorted(plan.verdicts)) == (["j-1"], ["j-1", "j-2"])


def test_srsf_counts_the_remaining_time_of_every_gpu():
    gangs = [gang(1, 2, walltime=2 * HOUR), gang(2, 1, walltime=3 * HOUR)]
    assert run_cycles(cluster("srsf", *gangs), 0) == ["j-2"]
    assert run_cycles(cluster("srtf", *gangs), 0) == ["j-1"]


def test_a_gang_with_little_service_goes_before_one_with_much():
    ledger = cluster("las", gang(1, 2, walltime=100 * HOUR))
    run_cycles(ledger, 0)
    ledger.add_pending(gang(2, 2, walltime=100 * HOUR))
    assert run_cycles(ledger, 60_000) == ["j-1"]
    falls = plan_of(ledger, 60_000).due
    assert falls == -(-3_250_000 // 16)
    assert run_cycles(ledger, falls) == ["j-2"]


def test_running_gangs_stay_in_place_and_others_go_around_them():
    ledger = cluster("srtf", running(1, {"n2": 4}, gpu=1, ends_by=10 * HOUR), gang(2, 1, walltime=HOUR))
    plan = plan_of(ledger, 0)
    assert admitted(plan) == {"j-2": ("n1",)}
    assert plan.preemptions == ()


def test_a_gang_on_nodes_of_a_stopped_gang_starts_once_they_are_released():
    ledger = cluster("srtf", running(1, {"n1": 8, "n2": 8}, ends_by=10 * HOUR), gang(2, 1, walltime=HOUR))
    plan = plan_of(ledger, 0)
    assert admitted(plan) == {}
    assert [(preemption.job_id, preemption.by) for preemption in plan.preemptions] == [("r-1", "j-2")]
    assert plan.verdicts["j-2"].reason is Reason.WAITING_FOR_PREEMPTED
    ledger.hold(replace(ledger.snapshot().running["r-1"], stopping=True))
    assert plan_of(ledger, 1).preemptions == ()


def test_no_gang_is_stopped_within_its_minimum_or_against_its_wish():
    short = gang(2, 2, walltime=HOUR)
    young = cluster("srtf", running(1, {"n1": 8}, ends_by=10 * HOUR), short, min_runtime=1_000)
    assert plan_of(young, 999).preemptions == ()
    assert plan_of(young, 999).due == 1_000
    assert len(plan_of(young, 1_000).preemptions) == 1
    refused = replace(running(1, {"n1": 8}, ends_by=10 * HOUR), unevictable_until=2_000)
    assert plan_of(cluster("srtf", refused, short), 1_000).preemptions == ()
    assert plan_of(cluster("srtf", refused, short), 1_000).due == 2_000
    assert len(plan_of(cluster("srtf", refused, short), 2_000).preemptions) == 1
    steadfast = replace(running(1, {"n1": 8}, ends_by=10 * HOUR), preemptible=False)
    assert plan_of(cluster("srtf", steadfast, short), HOUR).preemptions == ()


def test_a_gang_that_is_being_stopped_still_uses_its_quota():
    """Queue q may have 4 GPUs; the leaving gang holds them until it is gone, wherever else there is room."""
    leaves = replace(running(1, {"n1": 4}, queue="q"), stopping=True)
    ledger = ledger_of(nodes(2), leaves, waiting(2, demand(1, 4), queue="q", walltime=10))
    ledger.set_cluster(nodes(2), [Queue("q", {"gpu": 4})], None, Policy("srtf", min_runtime=0))
    assert plan_of(ledger, 0).admissions == ()
    ledger.release(leaves.id)
    assert list(admitted(plan_of(ledger, 0))) == ["j-2"]


def test_a_plan_is_due_at_start_and_end_of_a_reservation():
    ledger = Ledger(nodes(1), (), None, Policy("srtf"), [Reservation("repair", ("n1",), 50, 90)])
    ledger.add_pending(gang(1, 1, walltime=100))
    plan = plan_of(ledger, 10)
    assert (plan.admissions, plan.due) == ((), 50)
    assert plan_of(ledger, 60).due == 90
    assert list(admitted(plan_of(ledger, 90))) == ["j-1"]


def test_las_counts_held_gpus_and_not_requested_ones():
    small = replace(running(1, {"n1": 1}, gpu=1), admitted_at=0)
    again = requeue_gang(small, HOUR)
    assert again.service == HOUR * 1000
    asks_for_eight = replace(again, milli_gpus=8000)
    served_more = replace(again, id="j-2", service=again.service + 1000)
    policy = Policy("las", service_limits=(HOUR, 8 * HOUR))
    assert sort_key_of(asks_for_eight, policy)[0][0] == sort_key_of(served_more, policy)[0][0] == 1
    resized = replace(small, service=5 * HOUR, resized_at=HOUR)
    assert resized.service_at(2 * HOUR) == 5 * HOUR + HOUR * 1000
