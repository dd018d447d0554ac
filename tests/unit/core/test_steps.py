"""A job with steps runs one after another, each as a gang of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from windlass.core.lifecycle import events as e
from windlass.core.lifecycle.spec_update import job_as_placed
from windlass.core.lifecycle.state_machine import step
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.elastic_size import present_job
from windlass.core.model.gang import pending_of, running_of
from windlass.core.model.job import Job, RestartPolicy, Role, SuccessPolicy
from windlass.core.model.status import JobState, Phase, Placement, Target
from windlass.core.model.steps import job_at_step, jobs_of_steps, step_after

DATA, MODEL = Role("data"), Role("model")
NODE = Role("node", replicas=3, resources={"gpu": 8}, step=1)
JOB = Job("j", (DATA, MODEL, NODE), success=SuccessPolicy(("node",)), restart=RestartPolicy(user_limit=1))
FIRST, SECOND = Placement({"data": ("n1",), "model": ("n1",)}), Placement({"node": ("n1", "n2", "n3")})
OK = e.Exit(code=0)


def after(state: JobState, *events: e.Event) -> JobState:
    """The state after these events, one a second."""
    for now, event in enumerate(events):
        state, _ = step(state, event, now * 1_000)
    return state


def started(placement: Placement, generation: int = 1) -> tuple[e.Event, ...]:
    return e.Admit(placement), e.Started(generation)


NEW = after(create_state("j-1", 1, JOB, 0), e.Submitted())
FIRST_DONE = after(NEW, *started(FIRST), e.MemberExited(1, 0, OK), e.MemberExited(1, 1, OK))
QUEUED_AGAIN = after(FIRST_DONE, e.GangGone(1))


def demands(state: JobState) -> list[tuple[str, int]]:
    placement = state.status.placement
    gang = pending_of(state) if placement is None else running_of(state, placement)
    return [(each.role, each.count) for each in gang.demands]


def test_only_the_roles_of_the_present_step_are_demanded() -> None:
    assert demands(NEW) == [("data", 1), ("model", 1)]
    assert demands(after(NEW, *started(FIRST))) == [("data", 1), ("model", 1)]
    assert demands(QUEUED_AGAIN) == [("node", 3)]
    assert demands(after(QUEUED_AGAIN, *started(SECOND, 2))) == [("node", 3)]


def test_the_next_step_queues_when_every_role_of_the_one_before_has_succeeded() -> None:
    one = after(NEW, *started(FIRST), e.MemberExited(1, 1, OK))
    assert (one.status.phase, one.status.step) == (Phase.RUNNING, 0)
    assert (FIRST_DONE.status.step, FIRST_DONE.status.target) == (1, Target.REQUEUE)
    assert present_job(FIRST_DONE).roles == (DATA, MODEL), "the nodes are those of the step that ends"
    status = QUEUED_AGAIN.status
    assert (status.phase, status.placement, status.not_before) == (Phase.QUEUED, None, None)
    assert status.queued_at == NEW.status.queued_at, "it keeps its place in the queue"


def test_the_job_succeeds_with_its_last_step() -> None:
    ran = after(QUEUED_AGAIN, *started(SECOND, 2), *(e.MemberExited(2, member, OK) for member in range(3)))
    ended = after(ran, e.GangGone(2))
    assert (ended.status.phase, ended.status.attempts) == (Phase.SUCCEEDED, 1)


def test_a_deciding_role_of_a_step_is_not_enough_for_the_next_one_and_ends_the_job_in_the_last() -> None:
    job = replace(JOB, roles=(DATA, MODEL, NODE, Role("export", step=2)), success=SuccessPolicy(("data", "node")))
    one = after(replace(NEW, job=job), *started(FIRST), e.MemberExited(1, 0, OK))
    assert (one.status.target, one.status.step) == (None, 0)
    ran = after(one, e.MemberExited(1, 1, OK), e.GangGone(1), *started(SECOND, 2))
    ended = after(ran, *(e.MemberExited(2, member, OK) for member in range(3)))
    assert (ended.status.target, ended.status.step) == (Target.SUCCEED, 1)


def test_a_failure_restarts_the_step_and_then_fails_the_job() -> None:
    failed = after(NEW, *started(FIRST), e.MemberExited(1, 0, e.Exit(code=1)))
    again = after(failed, e.GangGone(1))
    assert (again.status.phase, again.status.step, again.status.attempts) == (Phase.ADMITTED, 0, 2)
    ended = after(again, e.Started(2), e.MemberExited(2, 0, e.Exit(code=1)), e.GangGone(2))
    assert (ended.status.phase, ended.status.step) == (Phase.FAILED, 0)


def test_a_failure_of_the_second_step_does_not_repeat_the_first() -> None:
    failed = after(QUEUED_AGAIN, *started(SECOND, 2), e.MemberExited(2, 0, e.Exit(code=1)), e.GangGone(2))
    assert (failed.status.phase, failed.status.step, failed.status.placement) == (Phase.ADMITTED, 1, SECOND)


@pytest.mark.parametrize("state", [FIRST_DONE, QUEUED_AGAIN], ids=["while it ends", "while the next one waits"])
def test_a_suspended_job_goes_on_with_the_step_that_it_had_reached(state: JobState) -> None:
    suspended = after(state, e.Suspend(), e.GangGone(1))
    assert suspended.status.phase is Phase.SUSPENDED
    assert demands(after(suspended, e.Resume())) == [("node", 3)]


def test_the_loss_of_a_node_does_not_repeat_a_step_that_has_succeeded() -> None:
    assert demands(after(FIRST_DONE, e.NodeLost("n1"), e.GangGone(1))) == [("node", 3)]


def test_a_start_timeout_of_an_earlier_generation_makes_the_next_step_avoid_no_node() -> None:
    late = after(replace(NEW, job=replace(JOB, start_timeout=1_000)), e.Admit(FIRST))
    late, _ = step(late, e.Timer(), 5_000)
    late, _ = step(late, e.GangGone(1, (0,)), 5_000)
    assert late.status.avoided_nodes == ("n1",)
    ended = after(late, *started(FIRST, 2), e.MemberExited(2, 0, OK), e.MemberExited(2, 1, OK), e.GangGone(2))
    assert (ended.status.step, ended.status.avoided_nodes) == (1, ())


def test_a_job_as_placed_keeps_its_other_steps() -> None:
    more = replace(JOB, roles=(DATA, MODEL, replace(NODE, replicas=5)))
    assert job_as_placed(more, FIRST) == more
    assert job_as_placed(more, SECOND) == JOB


def test_a_step_beyond_the_last_is_the_last() -> None:
    assert job_at_step(JOB, 7).roles == (NODE,)
    assert [each.members for each in jobs_of_steps(JOB)] == [2, 3]
    assert (step_after(JOB, 0), step_after(JOB, 1)) == (1, None)
