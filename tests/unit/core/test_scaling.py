"""Scaling in place: members are added to a running gang, and removed from it, while the others go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from windlass.backends.port import ClusterChanged, JobArrived, JobChanged, JobEvent, JobRecovered, Recovery
from windlass.controller.controller import Controller
from windlass.core.invariants import plan_violations, snapshot_violations
from windlass.core.lifecycle import events as e
from windlass.core.lifecycle.commands import Command, Rescale, RestartMember, Stop
from windlass.core.lifecycle.failure import INVALID, REJECTED, STALE_PLACEMENT
from windlass.core.lifecycle.scaling import RETRY_MS
from windlass.core.model.job import Job, MemberRestart, RestartPolicy, RestartScope, Role, SuccessPolicy
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
from windlass.core.model.reasons import Reason
from windlass.core.model.status import JobState, Phase, Placement, Target

MASTER = Role("master", resources={"gpu": 1}, scales_in_place=True)


def job(workers: int, *, masters: int = 1, **role: object) -> Job:
    """A master and workers, of which each takes a GPU and restarts alone."""
    worker = Role("worker", workers, resources={"gpu": 1}, scales_in_place=True, **role)  # type: ignore[arg-type]
    roles = (replace(MASTER, replicas=masters), worker)
    return Job("a", roles, restart=RestartPolicy(scope=RestartScope.MEMBER), success=SuccessPolicy(("master",)))


def plain(gpus: int) -> Job:
    return Job("b", (Role(replicas=gpus, resources={"gpu": 1}),))


class Cluster:
    """A controller with one job, started with two workers."""

    def __init__(self, gpus: int = 8, *, quota: int | None = None, asked: Job | None = None) -> None:
        queue = Queue("default") if quota is None else Queue("default", nominal={"gpu": quota})
        self.it = Controller(
            Recovery(ClusterChanged((Node("n1", {"gpu": gpus}),), (queue,))), lambda _: None, refuses=False
        )
        self.now = 0
        self.commands: list[Command] = []
        self.turn(JobArrived("a-1", 1, asked or job(2)))
        self.turn(JobEvent("a-1", e.Started(1)))

    def turn(self, *events: object) -> list[Command]:
        self.now += 1
        self.commands = list(self.it.turn(list(events), self.now).commands)  # type: ignore[arg-type]
        snapshot, decided = self.it.snapshot(), self.it.decision
        assert [*snapshot_violations(snapshot), *plan_violations(decided.snapshot, decided.plan)] == []
        return self.commands

    @property
    def state(self) -> JobState:
        return self.it.states["a-1"]

    @property
    def workers(self) -> int:
        assert self.state.status.placement is not None
        return len(self.state.status.placement.nodes["worker"])

    def scale(self, workers: int, **asked: object) -> list[Command]:
        return self.turn(JobChanged("a-1", job(workers, **asked)))  # type: ignore[arg-type]

    def ends(self, member: int, exit: e.Exit) -> list[Command]:
        return self.turn(JobEvent("a-1", e.MemberExited(1, member, exit)))

    def why(self) -> tuple[Reason, str]:
        verdict = self.it.plan.missing["a-1"]
        return verdict.reason, verdict.message


def test_a_running_job_gets_more_members_while_the_others_go_on() -> None:
    cluster = Cluster()
    commands = cluster.scale(4)
    placement = Placement({"master": ("n1",), "worker": ("n1",) * 4})
    assert commands == [Rescale("a-1", 1, placement), RestartMember("a-1", 1, 3), RestartMember("a-1", 1, 4)]
    assert (cluster.state.status.phase, cluster.state.status.generation) == (Phase.RUNNING, 1)
    assert cluster.it.plan.missing == {}
    cluster.turn(JobEvent("a-1", e.MemberStarted(1, 3)), JobEvent("a-1", e.MemberStarted(1, 4)))
    assert (cluster.state.status.added_members, cluster.state.status.restarting_members) == (0, 0)


def test_members_that_are_removed_free_their_nodes_at_once() -> None:
    cluster = Cluster(gpus=4)
    cluster.turn(JobArrived("b-1", 2, plain(2)))
    assert cluster.it.states["b-1"].status.phase is Phase.QUEUED
    cluster.scale(1)
    assert cluster.workers == 1
    assert cluster.it.states["b-1"].status.phase is Phase.ADMITTED
    assert cluster.state.status.phase is Phase.RUNNING


def test_more_members_need_quota() -> None:
    """An edit of a running job takes nothing from others: its queue has no more than its quota."""
    cluster = Cluster(quota=3)
    cluster.turn(JobArrived("b-1", 2, plain(1)))
    assert cluster.scale(6) == []
    assert (cluster.workers, cluster.state.job.roles[1].replicas) == (2, 6)
    reason, message = cluster.why()
    assert reason is Reason.EXCEEDS_MAX_QUOTA
    assert "gpu" in message


def test_a_job_that_lacks_room_goes_on_with_what_it_has_until_there_is_room() -> None:
    cluster = Cluster(gpus=4)
    cluster.turn(JobArrived("b-1", 2, plain(1)))
    assert cluster.scale(3) == []
    assert cluster.workers == 2
    assert cluster.why()[0] is Reason.WAITING_FOR_QUOTA
    cluster.turn(JobEvent("b-1", e.Started(1)), JobEvent("b-1", e.MemberExited(1, 0, e.Exit(code=0))))
    cluster.turn(JobEvent("b-1", e.GangGone(1)))
    assert cluster.workers == 3
    assert cluster.it.plan.missing == {}


def test_the_missing_members_of_a_fixed_role_are_added_together() -> None:
    cluster = Cluster(gpus=4)
    cluster.scale(4)
    assert cluster.workers == 2


def test_an_elastic_role_gets_as_many_members_as_fit_and_no_more_than_requested() -> None:
    bounds = {"min_replicas": 1, "max_replicas": 8}
    cluster = Cluster(gpus=5, asked=job(2, **bounds))
    assert cluster.workers == 2
    cluster.scale(6, **bounds)
    assert cluster.workers == 4
    cluster.scale(3, **bounds)
    assert cluster.workers == 3
    cluster.now = 10_000_000
    cluster.turn()
    assert cluster.workers == 3


def test_the_members_of_other_roles_keep_what_is_known_of_them() -> None:
    cluster = Cluster(asked=job(2, masters=2))
    cluster.ends(2, e.Exit(code=0))
    cluster.ends(3, e.Exit(code=1))
    assert (cluster.state.status.succeeded_members, cluster.state.status.restarting_members) == (0b0100, 0b1000)
    cluster.scale(2, masters=3)
    assert (cluster.state.status.succeeded_members, cluster.state.status.restarting_members) == (0b01000, 0b10100)
    cluster.scale(2, masters=1)
    assert (cluster.state.status.succeeded_members, cluster.state.status.restarting_members) == (0b010, 0b100)


def test_a_job_succeeds_once_the_members_that_are_left_have_succeeded() -> None:
    both = replace(job(2), success=SuccessPolicy(("worker",)))
    cluster = Cluster(asked=both)
    cluster.ends(1, e.Exit(code=0))
    commands = cluster.turn(JobChanged("a-1", replace(job(1), success=SuccessPolicy(("worker",)))))
    assert [type(command) for command in commands] == [Stop]
    assert cluster.state.status.target is Target.SUCCEED


@pytest.mark.parametrize("cause", [REJECTED, INVALID, STALE_PLACEMENT])
def test_a_member_that_cannot_be_added_leaves_the_others_alone(cause) -> None:
    """Its pod is refused, or its node is taken: the job keeps running, and tries again later."""
    cluster = Cluster()
    cluster.scale(3)
    refused = e.Exit(lost=True, end_class=cause, detail="quota of the namespace")
    commands = cluster.ends(3, refused)
    assert (cluster.workers, cluster.state.status.phase, cluster.state.status.target) == (2, Phase.RUNNING, None)
    assert [type(command) for command in commands] == [Rescale]
    assert cluster.why()[0] is Reason.ON_HOLD
    assert cluster.it.next_due() == cluster.now + RETRY_MS
    cluster.now += RETRY_MS
    cluster.turn()
    assert cluster.workers == 3


def test_a_job_that_starts_is_made_smaller_once_it_runs() -> None:
    cluster = Cluster()
    cluster.turn(JobArrived("a-2", 2, job(3)))
    cluster.turn(JobChanged("a-2", job(1)))
    placement = cluster.it.states["a-2"].status.placement
    assert placement is not None
    assert len(placement.nodes["worker"]) == 3
    commands = cluster.turn(JobEvent("a-2", e.Started(1)))
    assert [type(command) for command in commands] == [Rescale]


def test_a_gang_that_stops_to_start_again_starts_with_what_is_requested() -> None:
    cluster = Cluster(asked=replace(job(3, restart=MemberRestart.NEVER), restart=RestartPolicy(user_limit=3)))
    cluster.ends(1, e.Exit(code=1))
    assert cluster.state.status.target is Target.RESTART
    cluster.turn(JobChanged("a-1", replace(job(2, restart=MemberRestart.NEVER), restart=RestartPolicy(user_limit=3))))
    cluster.turn(JobEvent("a-1", e.GangGone(1)))
    assert cluster.workers == 2


def test_a_new_leader_removes_what_was_scaled_down_while_none_was_up() -> None:
    cluster = Cluster()
    changed = replace(cluster.state, job=job(1))
    cluster.it = Controller(
        Recovery(ClusterChanged((Node("n1", {"gpu": 8}),), (Queue("default"),))), lambda _: None, refuses=False
    )
    commands = cluster.turn(JobRecovered(changed))
    assert Rescale("a-1", 1, Placement({"master": ("n1",), "worker": ("n1",)})) in commands
    assert cluster.workers == 1


def test_a_job_whose_gang_restarts_whole_keeps_its_size() -> None:
    cluster = Cluster(asked=plain(2))
    cluster.turn(JobChanged("a-1", plain(3)))
    assert cluster.state.job.members == 2


@pytest.mark.parametrize("exit", [e.Exit(0), e.Exit(1)])
def test_the_end_of_a_member_that_was_removed_meanwhile_changes_nothing(exit: e.Exit) -> None:
    cluster = Cluster()
    cluster.scale(1)
    before = cluster.state
    assert cluster.ends(2, exit) == []
    assert cluster.state == before
