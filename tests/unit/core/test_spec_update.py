"""A job whose owner changes its specification."""

from __future__ import annotations

from dataclasses import replace

import pytest

from windlass.backends.port import ClusterChanged, JobArrived, JobChanged, JobEvent, Recovery
from windlass.controller.controller import Controller
from windlass.core.invariants import snapshot_violations
from windlass.core.lifecycle.events import Exit, GangGone, MemberExited, Preempt, Started
from windlass.core.model.job import ArrayMember, Job, Role
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
from windlass.core.model.reasons import Reason
from windlass.core.model.status import Phase

CLUSTER = ClusterChanged((Node("n1", {"gpu": 4}),), (Queue("default"),))


def job(replicas: int, **asked: object) -> Job:
    return Job("a", (Role(replicas=replicas, resources={"gpu": 1}),), **asked)  # type: ignore[arg-type]


def controller() -> Controller:
    return Controller(Recovery(CLUSTER), lambda _: None, refuses=False)


def test_a_waiting_job_takes_its_new_spec_at_once() -> None:
    it = controller()
    it.turn([JobArrived("a-1", 1, job(9))], 0)
    assert it.states["a-1"].status.phase is Phase.QUEUED
    it.turn([JobChanged("a-1", job(3))], 1)
    assert it.states["a-1"].status.phase is Phase.ADMITTED
    assert it.states["a-1"].job.members == 3


def test_a_running_gang_keeps_its_size_but_takes_new_time_limits() -> None:
    it = controller()
    it.turn([JobArrived("a-1", 1, job(2))], 0)
    it.turn([JobEvent("a-1", Started(1))], 1)
    it.turn([JobChanged("a-1", job(4))], 2)
    assert it.states["a-1"].job.members == 2
    it.turn([JobChanged("a-1", job(2, walltime=1_000))], 3)
    assert it.next_due() == 1_000


STARTED = Job(
    "a",
    (Role(replicas=2, resources={"gpu": 1}), Role("helper", 1, resources={"gpu": 1}, min_replicas=1, max_replicas=1)),
    priority=1,
    walltime=5_000,
)


def changed_role(**asked: object) -> Job:
    return replace(STARTED, roles=(replace(STARTED.roles[0], **asked), STARTED.roles[1]))  # type: ignore[arg-type]


def changed_bounds(least: int, most: int) -> Job:
    return replace(STARTED, roles=(STARTED.roles[0], replace(STARTED.roles[1], min_replicas=least, max_replicas=most)))


TAKES_FROM_OTHERS = {
    "it holds fewer GPUs than its processes use": changed_role(resources={"gpu": 0}),
    "it holds GPUs that its processes do not use": changed_role(resources={"gpu": 1_024}),
    "it holds whole nodes": changed_role(whole_node=True),
    "it frees the quota of its queue": replace(STARTED, queue="other"),
    "it frees the limit of its user": replace(STARTED, user="ada"),
    "it frees the limit of its array": replace(STARTED, array=ArrayMember("s-1", 0, 1)),
    "it can preempt others": replace(STARTED, priority=2),
    "it keeps borrowed quota": replace(STARTED, preemptible=False),
    "it delays a reservation": replace(STARTED, walltime=5_001),
    "it has no end": replace(STARTED, walltime=None),
    "it delays a reclaim": replace(STARTED, grace=11_000, walltime=1_000),
    "it does not shrink": changed_bounds(2, 2),
}
TAKES_NOTHING = {
    "lower priority": replace(STARTED, priority=0),
    "shorter walltime": replace(STARTED, walltime=4_000),
    "shorter grace": replace(STARTED, grace=0),
    "deadline": replace(STARTED, deadline=9_000),
    "time to live": replace(STARTED, ttl=9_000),
    "image": changed_role(image="x:2"),
    "node selector": changed_role(node_selector={"zone": "a"}),
    "larger maximum": changed_bounds(1, 4),
}


def run_and_change(after: Job, before: Job = STARTED, *, by_cluster: bool = False) -> Controller:
    """A gang runs, and then its owner changes it. The nodes are full, so that it does not grow."""
    nodes, queues = (Node("n1", {"gpu": 3}),), (Queue("default"), Queue("other"))
    it = Controller(Recovery(ClusterChanged(nodes, queues)), lambda _: None, refuses=False)
    it.turn([JobArrived("a-1", 1, before)], 0)
    it.turn([JobEvent("a-1", Started(1))], 1)
    it.turn([JobChanged("a-1", after, by_cluster)], 2)
    assert snapshot_violations(it.snapshot(), it.states) == []
    return it


@pytest.mark.parametrize("after", TAKES_FROM_OTHERS.values(), ids=TAKES_FROM_OTHERS.keys())
def test_a_change_that_takes_from_others_waits_until_the_gang_has_released_its_nodes(after: Job) -> None:
    it = run_and_change(after)
    assert it.states["a-1"].job == STARTED
    assert it.snapshot().free[0, it.snapshot().table.column["gpu"]] == 0
    it.turn([JobEvent("a-1", Preempt("for b-1: test"))], 3)
    it.turn([JobEvent("a-1", GangGone(1)), JobChanged("a-1", after)], 4)
    assert it.states["a-1"].job == after


@pytest.mark.parametrize("after", TAKES_NOTHING.values(), ids=TAKES_NOTHING.keys())
def test_a_change_that_takes_nothing_from_others_takes_effect_at_once(after: Job) -> None:
    assert run_and_change(after).states["a-1"].job == after


def test_a_gang_that_is_preemptible_from_now_on_may_be_preempted_at_once() -> None:
    assert run_and_change(STARTED, replace(STARTED, preemptible=False)).states["a-1"].job.preemptible


def test_a_running_gang_leaves_a_queue_that_the_cluster_denies_it() -> None:
    after = replace(STARTED, queue="other", priority=0)
    it = run_and_change(after, by_cluster=True)
    assert it.snapshot().usage_by_queue.get("other", {})["gpu"] == 3
    assert run_and_change(replace(after, user="ada"), by_cluster=True).states["a-1"].job == STARTED


def test_an_impossible_job_waits_where_no_job_is_refused() -> None:
    it = controller()
    it.turn([JobArrived("a-1", 1, job(9))], 0)
    assert "9" in it.plan.verdicts["a-1"].message
    it.turn([replace(CLUSTER, nodes=(Node("n1", {"gpu": 16}),))], 1)
    assert it.states["a-1"].status.phase is Phase.ADMITTED


@pytest.mark.parametrize(
    "impossible", [job(5), job(1, queue="none"), job(1, priority=3)], ids=["size", "queue", "priority"]
)
def test_a_change_to_a_job_that_could_never_run_is_refused_where_such_jobs_are(impossible: Job) -> None:
    it = Controller(Recovery(replace(CLUSTER, queues=(Queue("default", max_priority=2),))), lambda _: None)
    it.turn([JobArrived("a-1", 1, job(4)), JobArrived("b-2", 2, job(4))], 0)
    it.turn([JobChanged("b-2", impossible)], 1)
    assert it.states["b-2"].job == job(4)
    assert it.refusal(impossible, job(4)) is not None
    it.turn([JobChanged("b-2", job(3))], 2)
    assert it.states["b-2"].job == job(3)


def test_a_job_whose_nodes_are_gone_may_change_otherwise() -> None:
    it = Controller(Recovery(replace(CLUSTER, queues=(Queue("default", max_priority=2),))), lambda _: None)
    it.turn([JobArrived("a-1", 1, job(4)), JobArrived("b-2", 2, job(4))], 0)
    it.turn([replace(CLUSTER, nodes=(Node("n1", {"gpu": 2}),), queues=(Queue("default", max_priority=2),))], 1)
    it.turn([JobChanged("b-2", job(4, priority=1))], 2)
    it.turn([JobChanged("b-2", job(4, priority=3))], 3)
    assert it.states["b-2"].job == job(4, priority=1)


def test_a_gang_that_was_changed_while_it_ran_and_fits_nowhere_says_what_a_new_job_says() -> None:
    it = controller()
    it.turn([JobArrived("a-1", 1, job(1))], 0)
    it.turn([JobEvent("a-1", Started(1))], 1)
    it.turn([JobEvent("a-1", Preempt("for another"))], 2)
    it.turn([JobEvent("a-1", GangGone(1)), JobChanged("a-1", job(5)), JobArrived("b-2", 2, job(5))], 3)
    it.turn([], it.states["a-1"].status.not_before or 4)
    waits, new = it.plan.verdicts["a-1"], it.plan.verdicts["b-2"]
    assert waits == new
    assert (waits.reason, waits.wanted, waits.fits) == (Reason.NO_MATCHING_FLAVOR, 5, 4)


def test_a_change_after_the_end_changes_nothing() -> None:
    it = controller()
    it.turn([JobArrived("a-1", 1, job(1, ttl=10_000))], 0)
    ended = [
        JobEvent("a-1", Started(1)),
        JobEvent("a-1", MemberExited(1, 0, Exit(code=0))),
        JobEvent("a-1", GangGone(1)),
    ]
    it.turn(ended, 1)
    it.turn([JobChanged("a-1", job(3, ttl=10_000))], 2)
    assert it.states["a-1"].job.members == 1


def test_a_time_to_live_that_is_changed_after_the_end_counts() -> None:
    it = controller()
    it.turn([JobArrived("a-1", 1, job(1, ttl=10_000))], 0)
    it.turn([JobEvent("a-1", MemberExited(1, 0, Exit(code=0))), JobEvent("a-1", GangGone(1))], 1)
    assert it.next_due() == 10_001
    it.turn([JobChanged("a-1", job(1, ttl=20))], 5)
    assert it.next_due() == 21
    assert it.turn([], 21).forgotten == ("a-1",)
