"""Restart of single members, and success by the members that decide."""

from __future__ import annotations

from dataclasses import replace

import pytest

from windlass.core.lifecycle import events as e
from windlass.core.lifecycle.commands import Command, Launch, RestartMember, Stop
from windlass.core.lifecycle.failure import EVICTED, INVALID, REJECTED, STALE_PLACEMENT
from windlass.core.lifecycle.member_restarts import restarts_under_way
from windlass.core.lifecycle.state_machine import step
from windlass.core.lifecycle.success import has_succeeded
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import (
    Job,
    MemberRestart,
    RestartPolicy,
    RestartScope,
    Role,
    SuccessPolicy,
    SuccessRule,
)
from windlass.core.model.status import JobState, Phase, Placement, Status, Target

NOW = 1_000
FAILED, KILLED = e.Exit(code=1, detail="worker-1 exited with code 1"), e.Exit(code=137)
DELETED, OUT = e.Exit(lost=True), e.Exit(lost=True, end_class=EVICTED)


def running(rule: MemberRestart = MemberRestart.ON_FAILURE, *, limit: int | None = None, **role: bool) -> JobState:
    """One master, members 0, and two workers, 1 and 2, of which each restarts alone."""
    roles = (Role("master"), Role("worker", replicas=2, restart=rule, **role))  # type: ignore[arg-type]
    policy = RestartPolicy(scope=RestartScope.MEMBER, member_limit=limit)
    job = Job("j", roles, restart=policy, success=SuccessPolicy(("master",)))
    placement = Placement({"master": ("n0",), "worker": ("n1", "n2")})
    status = Status(Phase.RUNNING, generation=3, placement=placement, is_gone=False, admitted_at=1, started_at=2)
    return replace(create_state("j-1", 1, job, 0), status=status)


def exits(state: JobState, exit: e.Exit, member: int = 1) -> tuple[JobState, tuple[Command, ...]]:
    return step(state, e.MemberExited(3, member, exit), NOW)


RESTART = (RestartMember("j-1", 3, 1),)


@pytest.mark.parametrize(
    ("rule", "restarted"),
    [
        (MemberRestart.ON_FAILURE, {"failed", "killed", "deleted", "evicted"}),
        (MemberRestart.ON_EXIT_CODE, {"killed", "deleted", "evicted"}),
        (MemberRestart.ON_LOSS, {"deleted"}),
        (MemberRestart.NEVER, set()),
    ],
)
@pytest.mark.parametrize("optional", [False, True])
def test_the_rule_of_the_role_decides_whether_a_member_restarts(
    rule: MemberRestart, restarted: set[str], optional: bool
) -> None:
    for name, exit in {"failed": FAILED, "killed": KILLED, "deleted": DELETED, "evicted": OUT}.items():
        after, commands = exits(running(rule, optional=optional), exit)
        assert after.status.phase is Phase.RUNNING
        if name in restarted:
            assert commands == RESTART
            assert after.status.last_failure is not None
            assert after.status.target is None
        elif optional:
            assert (after.status.target, commands) == (None, ())
        else:
            assert after.status.target is Target.FAIL
            assert isinstance(commands[0], Stop)


def test_the_message_of_a_failed_job_is_that_of_the_member() -> None:
    after, _ = exits(running(MemberRestart.NEVER), FAILED)
    assert (after.status.reason, after.status.message) == ("ExitCode", "worker-1 exited with code 1")
    assert after.status.user_failures == 1


def test_a_restart_that_is_under_way_is_not_decided_again() -> None:
    state, _ = exits(running(), FAILED)
    assert exits(state, FAILED) == (state, ())
    assert restarts_under_way(state) == RESTART
    state, _ = step(state, e.MemberStarted(3, 1), NOW)
    assert restarts_under_way(state) == ()
    state, commands = exits(state, FAILED)
    assert commands == RESTART
    assert state.status.member_restarts == 2


@pytest.mark.parametrize(
    ("limit", "in_place", "before", "exit", "ended"),
    [
        (3, 2, 0, None, False),
        (3, 3, 0, None, True),
        (0, 0, 0, None, False),
        (0, 1, 0, None, True),
        (0, 0, 0, FAILED, True),
        (0, 0, 0, DELETED, False),
        (3, 0, 2, FAILED, False),
        (3, 0, 3, FAILED, True),
        (3, 1, 2, FAILED, True),
        (None, 99, 99, FAILED, False),
    ],
)
def test_the_backoff_limit_counts_members_and_containers(
    limit: int | None, in_place: int, before: int, exit: e.Exit | None, ended: bool
) -> None:
    state = running(limit=limit)
    state = replace(state, status=replace(state.status, member_restarts=before))
    state, _ = step(state, e.ContainersRestarted(3, in_place), NOW)
    if exit is not None:
        state, _ = exits(state, exit)
    assert (state.status.target is Target.FAIL) is ended
    if ended:
        assert state.status.reason == "BackoffLimitExceeded"
        what = "worker-1 exited with code 1, and " if limit == 0 and exit is FAILED else ""
        assert state.status.message == f"{what}it has reached the specified backoff limit"


def test_a_member_that_its_node_rejects_restarts_the_gang_elsewhere() -> None:
    for end_class in (REJECTED, STALE_PLACEMENT):
        after, _ = exits(running(), e.Exit(lost=True, end_class=end_class))
        assert after.status.target is Target.REQUEUE
    after, _ = exits(running(), e.Exit(lost=True, end_class=INVALID))
    assert after.status.target is Target.FAIL
    after, _ = step(running(), e.NodeLost("n2"), NOW)
    assert after.status.target is Target.REQUEUE


def test_a_new_generation_has_no_restarts_under_way() -> None:
    state, _ = exits(running(), FAILED)
    state, _ = step(state, e.NodeLost("n2"), NOW)
    state, _ = step(state, e.GangGone(3), NOW)
    assert (state.status.phase, state.status.restarting_members, state.status.member_restarts) == (Phase.QUEUED, 0, 1)
    placement = Placement({"master": ("n0",), "worker": ("n1", "n1")})
    state, commands = step(state, e.Admit(placement), NOW)
    assert isinstance(commands[0], Launch)
    assert restarts_under_way(state) == ()


def test_the_success_of_the_master_is_that_of_the_job() -> None:
    state, commands = exits(running(), e.Exit(code=0), member=2)
    assert (state.status.target, commands) == (None, ())
    state, commands = exits(state, e.Exit(code=0), member=0)
    assert state.status.target is Target.SUCCEED
    assert isinstance(commands[0], Stop)


@pytest.mark.parametrize(
    ("policy", "succeeds"),
    [
        (SuccessPolicy(), [0b1111]),
        (SuccessPolicy(("worker",)), [0b0110, 0b0111]),
        (SuccessPolicy(("worker",), SuccessRule.FIRST), [0b0010, 0b0110]),
        (SuccessPolicy(("worker",), SuccessRule.ANY), [0b0100, 0b0010]),
        (SuccessPolicy(("absent",)), [0b1111]),
        (SuccessPolicy(("master", "server")), [0b1001]),
    ],
)
def test_the_success_policy_names_the_deciding_members(policy: SuccessPolicy, succeeds: list[int]) -> None:
    job = Job("j", (Role("master"), Role("worker", replicas=2), Role("server")), success=policy)
    for done in succeeds:
        assert has_succeeded(job, done)
        smaller = [done & ~(1 << bit) for bit in range(4) if done >> bit & 1]
        assert not all(has_succeeded(job, less) for less in smaller)
    assert not has_succeeded(job, 0)


@pytest.mark.parametrize(("limit", "reason"), [(0, "BackoffLimitExceeded"), (1, "ExitCode"), (None, "ExitCode")])
def test_a_backoff_limit_of_zero_is_reached_by_a_member_that_never_restarts(limit: int | None, reason: str) -> None:
    state, _ = exits(running(MemberRestart.NEVER, limit=limit), FAILED)
    assert (state.status.target, state.status.reason) == (Target.FAIL, reason)
    assert state.status.message.startswith("worker-1 exited with code 1")
