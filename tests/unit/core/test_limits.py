"""Limits of a queue beside its quota: running jobs, and amounts of one user."""

from dataclasses import replace

from gangs import admitted, demand, ledger_of, nodes, running, waiting

from windlass.core.cycle.scheduler import schedule
from windlass.core.explain.admission_check import admission_refusal
from windlass.core.invariants import snapshot_violations
from windlass.core.model.job import Job, Role
from windlass.core.model.queue import Queue
from windlass.core.model.reasons import Reason


def plan_of(*gangs, queues, machines=4):
    return schedule(ledger_of(nodes(machines), *gangs, queues=queues).snapshot(), 0)


def by(user, gang):
    return replace(gang, user=user)


def test_a_user_holds_no_more_than_the_user_limit():
    lab = Queue("lab", user_limits={"gpu": 8})
    plan = plan_of(
        by("ada", running(1, {"n1": 6}, queue="lab")),
        by("ada", waiting(2, demand(4), queue="lab")),
        by("bob", waiting(3, demand(4), queue="lab")),
        by("ada", waiting(4, demand(2), queue="lab")),
        queues=[lab],
    )
    assert list(admitted(plan)) == ["j-3", "j-4"]
    verdict = plan.verdicts["j-2"]
    assert verdict.reason is Reason.WAITING_FOR_QUOTA
    assert verdict.message == "needs 4 gpu: ada holds 8 of the 8 gpu that a user may hold in queue lab"
    assert (verdict.resource, verdict.wanted, verdict.free) == ("gpu", 4, 0)


def test_a_request_beyond_the_users_maximum_is_refused():
    lab = Queue("lab", user_limits={"gpu": 8})
    snapshot = ledger_of(nodes(4), queues=[lab]).snapshot()
    job = Job("big", (Role(replicas=9, resources={"gpu": 1}),), queue="lab")
    verdict = admission_refusal(snapshot, job)
    assert verdict.message == (
        "asks for 9 gpu, a user may hold 8 in queue lab; largest gang that fits: 8 replicas of 1 gpu"
    )
    plan = plan_of(waiting(1, demand(9), queue="lab"), waiting(2, demand(8), queue="lab"), queues=[lab])
    assert plan.verdicts["j-1"].reason is Reason.EXCEEDS_MAX_QUOTA
    assert list(admitted(plan)) == ["j-2"]


def test_a_queue_runs_no_more_jobs_than_its_limit():
    plan = plan_of(
        running(1, {"n1": 1}, queue="lab"),
        waiting(2, demand(1), queue="lab"),
        waiting(3, demand(1), queue="lab"),
        queues=[Queue("lab", max_running=2)],
    )
    assert list(admitted(plan)) == ["j-2"]
    assert plan.verdicts["j-3"].message == "queue lab runs 2 jobs, and may run 2 at a time"


def test_a_user_at_the_job_limit_does_not_block_others():
    gangs = [by(user, waiting(number, demand(1), queue="lab")) for number, user in enumerate(("ada", "ada", "bob"), 1)]
    plan = plan_of(*gangs, queues=[Queue("lab", user_running=1)])
    assert list(admitted(plan)) == ["j-1", "j-3"]
    assert plan.verdicts["j-2"].message == "ada runs 1 job in queue lab, and a user may run 1"


def test_a_limit_of_a_parent_covers_all_below_it():
    queues = [Queue("lab", user_limits={"gpu": 8}, max_running=2), Queue("a", parent="lab"), Queue("b", parent="lab")]
    plan = plan_of(
        by("ada", running(1, {"n1": 6}, queue="a")),
        by("ada", waiting(2, demand(3), queue="b")),
        by("bob", waiting(3, demand(1), queue="b")),
        by("bob", waiting(4, demand(1), queue="a")),
        queues=queues,
    )
    assert list(admitted(plan)) == ["j-3"]
    assert plan.verdicts["j-2"].message == "needs 3 gpu: ada holds 6 of the 8 gpu that a user may hold in queue lab"
    assert plan.verdicts["j-4"].message == "queue lab runs 2 jobs, and may run 2 at a time"


def test_a_gang_that_waits_for_a_limit_keeps_no_quota_from_others():
    lab = Queue("lab", {"gpu": 16}, user_limits={"gpu": 8})
    plan = plan_of(
        by("ada", running(1, {"n1": 8}, queue="lab")),
        by("ada", waiting(2, demand(8), queue="lab")),
        by("bob", waiting(3, demand(8), queue="lab")),
        queues=[lab],
    )
    assert list(admitted(plan)) == ["j-3"]


def test_limits_below_current_usage_are_reported():
    lab = Queue("lab", user_running=1, max_running=1, user_limits={"gpu": 1})
    gangs = [by("ada", running(number, {"n1": 1}, queue="lab")) for number in (1, 2)]
    assert snapshot_violations(ledger_of(nodes(1), *gangs, queues=[lab]).snapshot()) == [
        "queue lab runs 2 jobs of 1",
        "ada runs 2 jobs of 1 in queue lab",
        "ada holds more than 1 gpu in queue lab",
    ]


def test_quotas_and_borrowing_limits_below_current_usage_are_reported():
    queues = [Queue("lab"), Queue("a", {"gpu": 1}, "lab", borrowing={"gpu": 1}), Queue("b", {"gpu": 1}, "lab")]
    held = running(1, {"n1": 4}, queue="a")
    assert snapshot_violations(ledger_of(nodes(1), held, queues=queues).snapshot()) == [
        "queue lab holds 4 gpu of 2",
        "queue a holds 4 gpu of 2",
    ]
