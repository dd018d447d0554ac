from dataclasses import replace

import numpy as np
import pytest
from gangs import demand, ledger_of, node, nodes, running, waiting

from windlass.core.cycle.scheduler import schedule
from windlass.core.invariants import plan_violations, snapshot_violations
from windlass.core.model.job import Job, Role
from windlass.core.model.plan import Admission
from windlass.core.model.queue import Queue
from windlass.core.model.status import JobState, Phase, Placement, Status


@pytest.fixture
def snapshot():
    return ledger_of(
        nodes(2),
        running(1, {"n1": 2}, queue="small", array_id="a", ends_by=5),
        waiting(2, demand(1)),
        queues=[Queue("small", {"gpu": 2})],
    ).snapshot()


def test_a_valid_snapshot_has_no_violations(snapshot):
    assert snapshot_violations(snapshot) == []


def test_an_overallocated_node_is_reported():
    ledger = ledger_of(nodes(1), running(1, {"n1": 8}))
    ledger.set_cluster([node("n1", 5)], ())
    assert snapshot_violations(ledger.snapshot()) == ["node n1 gives 3 gpu too many"]


def test_a_queue_over_its_quota_is_reported():
    ledger = ledger_of(nodes(1), running(1, {"n1": 3}, queue="q"), queues=[Queue("q", {"gpu": 2})])
    assert snapshot_violations(ledger.snapshot()) == ["queue q holds 3 gpu of 2"]


def test_a_partly_placed_gang_is_reported():
    gang = replace(running(1, {"n1": 2}), placement=Placement({"worker": ("n1",)}))
    assert snapshot_violations(ledger_of(nodes(1), gang).snapshot()) == ["r-1 has 1 of 2 replicas of worker placed"]


def test_a_job_that_waits_and_holds_is_reported(snapshot):
    both = replace(snapshot, running={**snapshot.running, "j-2": replace(snapshot.running["r-1"], id="j-2")})
    assert "j-2 both waits and holds" in snapshot_violations(both)
    twice = replace(snapshot, classes=snapshot.classes * 2)
    assert snapshot_violations(twice) == ["j-2 waits 2 times"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"free": np.full((2, 3), 4)}, "free by the ledger"),
        ({"usage_by_queue": {}}, "queue small holds {} by the ledger, {'gpu': 2} by count"),
        ({"running_by_array": {"a": 2}}, "arrays hold {'a': 2} by the ledger, {'a': 1} by count"),
        ({"walltime_ends": ()}, "walltimes end at [] by the ledger, [(5, 'r-1')] by count"),
    ],
)
def test_wrong_sums_are_reported(snapshot, wrong, message):
    assert message in "\n".join(snapshot_violations(replace(snapshot, **wrong)))


def states(**phases):
    """Jobs r-1 and j-2 in these phases; a job that is not QUEUED holds nodes."""
    return {
        job_id: JobState(job_id, 1, Job(job_id, (Role(),)), Status(phase, placement=placement))
        for job_id, phase, placement in (
            ("r-1", phases.get("r", Phase.RUNNING), Placement({"worker": ("n1", "n1")})),
            ("j-2", phases.get("j", Phase.QUEUED), None),
        )
    }


def test_matching_states_have_no_violations(snapshot):
    assert snapshot_violations(snapshot, states()) == []


def test_mismatched_states_are_reported(snapshot):
    assert snapshot_violations(snapshot, states(r=Phase.SUCCEEDED)) == ["r-1 is Succeeded and has nodes"]
    assert snapshot_violations(snapshot, states(j=Phase.SUSPENDED)) == ["j-2 is Suspended, and waits"]
    assert snapshot_violations(snapshot, {}) == [
        "j-2 is unknown, and the ledger has it",
        "r-1 is unknown, and the ledger has it",
    ]


def test_a_valid_plan_has_no_violations(snapshot):
    assert plan_violations(snapshot, schedule(snapshot, 0)) == []


def admission(job_id, *names):
    return Admission(job_id, Placement({"worker": names}))


@pytest.mark.parametrize(
    ("admissions", "message"),
    [
        ((admission("j-2", "n1"), admission("j-2", "n2")), "j-2 starts twice"),
        ((admission("j-3", "n1"),), "j-3 starts, and did not wait"),
        ((admission("j-2", "n1", "n1"),), "j-2 has 2 of 1 replicas of worker placed"),
        ((), "the verdicts are not those of the gangs that stay"),
    ],
)
def test_invalid_plans_are_reported(snapshot, admissions, message):
    plan = replace(schedule(snapshot, 0), admissions=admissions)
    assert message in plan_violations(snapshot, plan)


def test_a_plan_that_uses_an_excluded_node_is_reported():
    ledger = ledger_of([node("n1", zone="a"), node("n2")], waiting(2, demand(1, 1, zone="a")))
    plan = replace(schedule(ledger.snapshot(), 0), admissions=(admission("j-2", "n2"),))
    assert plan_violations(ledger.snapshot(), plan) == ["j-2 starts on n2, which worker may not use"]


def test_a_plan_that_gives_a_node_twice_is_reported():
    ledger = ledger_of(nodes(1), waiting(2, demand(1, 5)), waiting(3, demand(1, 5)))
    plan = replace(
        schedule(ledger.snapshot(), 0), admissions=(admission("j-2", "n1"), admission("j-3", "n1")), verdicts={}
    )
    assert plan_violations(ledger.snapshot(), plan) == ["node n1 gives 2 gpu too many"]
