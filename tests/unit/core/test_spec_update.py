"""A job whose owner changes its specification."""

from __future__ import annotations

from dataclasses import replace

from windlass.backends.port import ClusterChanged, JobArrived, JobChanged, JobEvent, Recovery
from windlass.controller.controller import Controller
from windlass.core.lifecycle.events import Exit, GangGone, MemberExited, Started
from windlass.core.model.job import Job, Role
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
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


def test_an_impossible_job_waits_where_no_job_is_refused() -> None:
    it = controller()
    it.turn([JobArrived("a-1", 1, job(9))], 0)
    assert "9" in it.plan.verdicts["a-1"].message
    it.turn([replace(CLUSTER, nodes=(Node("n1", {"gpu": 16}),))], 1)
    assert it.states["a-1"].status.phase is Phase.ADMITTED


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
