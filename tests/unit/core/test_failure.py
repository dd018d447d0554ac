"""Classes of failures, and the backoff before the next attempt."""

import signal

import pytest

from windlass.backends.members import SETTLING_MS, MemberTracker
from windlass.core.lifecycle.events import Admit, Exit, GangGone, MemberExited, Recovered, Started
from windlass.core.lifecycle.failure import (
    EVICTED,
    INVALID,
    NODE_OUT_OF_MEMORY,
    OUT_OF_MEMORY,
    REJECTED,
    STALE_PLACEMENT,
    backoff,
    classify_exit,
    count_failure,
    describe_exhausted_limit,
)
from windlass.core.lifecycle.state_machine import step
from windlass.core.lifecycle.transitions import can_recover_in_place
from windlass.core.model.job import Job, RestartPolicy, Role
from windlass.core.model.status import Failure, FailureClass, JobState, Phase, Placement, Status

USER, INFRASTRUCTURE, PREEMPTION = FailureClass.USER, FailureClass.INFRASTRUCTURE, FailureClass.PREEMPTION
POLICY = RestartPolicy(retryable_exit_codes=(42,), fatal_exit_codes=(43, 84))


@pytest.mark.parametrize(
    ("exit", "kind", "reason", "fatal"),
    [
        (Exit(code=1), USER, "ExitCode", False),
        (Exit(signal=signal.SIGKILL), INFRASTRUCTURE, "Signal", False),
        (Exit(signal=signal.SIGSEGV), USER, "Signal", False),
        (Exit(code=128 + signal.SIGKILL), INFRASTRUCTURE, "Signal", False),  # through a shell
        (Exit(code=255), USER, "ExitCode", False),
        (Exit(lost=True), INFRASTRUCTURE, "Lost", False),
        (Exit(lost=True, end_class=EVICTED), INFRASTRUCTURE, "Evicted", False),
        (Exit(lost=True, end_class=INVALID), USER, "Invalid", True),
        (Exit(code=137, end_class=OUT_OF_MEMORY), USER, "OutOfMemory", False),
        (Exit(code=137, end_class=NODE_OUT_OF_MEMORY), INFRASTRUCTURE, "NodeOutOfMemory", False),
        (Exit(code=42, end_class=OUT_OF_MEMORY), INFRASTRUCTURE, "RetryableExitCode", False),
        (Exit(code=83), PREEMPTION, "Preempted", False),
        (Exit(code=85), USER, "AskedForNoRetry", True),
        (Exit(code=42), INFRASTRUCTURE, "RetryableExitCode", False),
        (Exit(code=43), USER, "FatalExitCode", True),
        (Exit(code=84), USER, "FatalExitCode", True),  # the job's own list comes first
    ],
)
def test_a_failure_is_classed(exit: Exit, kind: FailureClass, reason: str, fatal: bool) -> None:
    found = classify_exit(exit, POLICY)
    assert (found.kind, found.reason, found.fatal) == (kind, reason, fatal)


@pytest.mark.parametrize(
    ("exit", "fatal"),
    [
        (Exit(code=1), True),
        (Exit(code=128 + signal.SIGKILL), True),
        (Exit(signal=signal.SIGTERM), True),
        (Exit(code=84), True),
        (Exit(code=137, end_class=OUT_OF_MEMORY), True),
        (Exit(code=137, end_class=NODE_OUT_OF_MEMORY), False),
        (Exit(lost=True), False),
        (Exit(lost=True, end_class=EVICTED), False),
        (Exit(lost=True, end_class=REJECTED), False),
    ],
)
def test_a_policy_of_never_restarts_only_after_infrastructure_failures(exit: Exit, fatal: bool) -> None:
    found = classify_exit(exit, RestartPolicy(restarts_after_exit=False))
    assert (found.kind == USER, found.fatal) == (fatal, fatal)


@pytest.mark.parametrize(("step", "wait"), [(0, 0), (1, 0), (2, 1_000), (3, 2_000), (4, 4_000), (20, 300_000)])
def test_backoff_is_zero_after_the_first_failure_then_doubles_to_a_bound(step: int, wait: int) -> None:
    assert backoff(step, RestartPolicy()) == wait


def after(*kinds: FailureClass, policy: RestartPolicy, member: int | None = 0) -> tuple[Status, str]:
    """The status after these failures in a row, and the limit that they have passed."""
    status, limit = Status(running_since=0), ""
    for kind in kinds:
        failure = Failure(kind, "x", "x", at=1, member=member)
        status = Status(running_since=0, **count_failure(status, failure, policy))
        limit = describe_exhausted_limit(status, failure, policy)
    return status, limit


def test_only_user_failures_use_up_the_user_limit() -> None:
    assert after(INFRASTRUCTURE, PREEMPTION, INFRASTRUCTURE, policy=RestartPolicy())[1] == ""
    status, limit = after(INFRASTRUCTURE, PREEMPTION, INFRASTRUCTURE, USER, policy=RestartPolicy())
    assert (status.user_failures, status.infrastructure_failures, status.preemptions) == (1, 2, 1)
    assert "1 failure of the program, 0 allowed" in limit


def test_infrastructure_failures_are_bounded_too() -> None:
    assert after(*[INFRASTRUCTURE] * 2, policy=RestartPolicy(infrastructure_limit=2))[1] == ""
    assert (
        "3 failures of infrastructure" in after(*[INFRASTRUCTURE] * 3, policy=RestartPolicy(infrastructure_limit=2))[1]
    )


def test_a_program_that_always_reports_preemption_does_not_restart_for_ever() -> None:
    policy = RestartPolicy(infrastructure_limit=2)
    assert after(*[PREEMPTION] * 2, policy=policy)[1] == ""
    assert "left 3 times in a row without a healthy run" in after(*[PREEMPTION] * 3, policy=policy)[1]


def test_a_preemption_costs_no_attempt() -> None:
    status, limit = after(*[PREEMPTION] * 9, policy=RestartPolicy(infrastructure_limit=2), member=None)
    assert (status.preemptions, status.backoff_step, limit) == (9, 0, "")


STALE = Exit(lost=True, end_class=STALE_PLACEMENT, detail="node n1 is gone")
PLACEMENT = Placement({"main": ("n1",)})


def admitted(policy: RestartPolicy) -> JobState:
    job = Job("j", (Role("main"),), restart=policy)
    return JobState("j", 1, job, Status(Phase.ADMITTED, generation=1, placement=PLACEMENT, is_gone=False))


def end(state: JobState, exit: Exit, now: int) -> JobState:
    """The job after the end of its only member, and of the gang."""
    state, _ = step(state, MemberExited(state.status.generation, 0, exit), now)
    state, _ = step(state, GangGone(state.status.generation), now)
    return state


def test_a_stale_placement_costs_no_restart_and_has_a_backoff_of_its_own() -> None:
    state = admitted(RestartPolicy(infrastructure_limit=0))
    for turn in (1, 2, 3):
        state = end(state, STALE, 1)
        status = state.status
        assert (status.phase, status.placement, status.infrastructure_failures) == (Phase.QUEUED, None, 0)
        assert (status.failed_launches, status.not_before) == (turn, {1: None, 2: 1_001, 3: 2_001}[turn])
        assert status.backoff_step == 0
        state, _ = step(state, Admit(PLACEMENT), 1)
    state, _ = step(state, Started(state.status.generation), 1)
    assert state.status.failed_launches == 0


def test_stale_placements_do_not_count_towards_the_limit_of_preemptions() -> None:
    state = admitted(RestartPolicy(infrastructure_limit=2))
    for _ in range(16):
        state = end(state, STALE, 1)
        state, _ = step(state, Admit(PLACEMENT), 1)
    state, _ = step(state, Started(state.status.generation), 1)
    state = end(state, Exit(code=83), 500_001)
    assert (state.status.phase, state.status.reason, state.status.not_before) == (Phase.QUEUED, "Preempted", None)


def test_the_backoff_after_a_stale_placement_leaves_out_other_failures() -> None:
    state = admitted(RestartPolicy())
    for _ in range(3):
        state = end(state, Exit(code=83), 1)
        state, _ = step(state, Admit(PLACEMENT), 1)
    state = end(state, STALE, 1)
    assert (state.status.backoff_step, state.status.failed_launches, state.status.not_before) == (3, 1, None)


def test_a_healthy_run_resets_the_backoff() -> None:
    tired = Status(running_since=0, backoff_step=7)
    policy = RestartPolicy(healthy_after=600_000)
    assert count_failure(tired, Failure(USER, "x", "x", at=599_999), policy)["backoff_step"] == 8
    assert count_failure(tired, Failure(USER, "x", "x", at=600_000), policy)["backoff_step"] == 1


def test_in_place_recovery_keeps_to_the_limits_of_whole_restarts() -> None:
    policy = RestartPolicy(user_limit=1)
    status = Status(phase=Phase.RUNNING, generation=1, running_since=0)
    state = JobState("j-1", 1, Job("j", (Role(),), restart=policy), status)
    assert can_recover_in_place(state, Exit(code=1), 5)
    after, _ = step(state, Recovered(1, 2, Exit(code=1, detail="rank 0 exited with 1"), 400), 5)
    assert not can_recover_in_place(after, Exit(code=1), 6)
    assert can_recover_in_place(after, Exit(signal=signal.SIGKILL), 6)
    assert not can_recover_in_place(after, Exit(code=83), 6)
    assert not can_recover_in_place(after, Exit(code=85), 6)


def test_a_killed_worker_and_the_resulting_exit_of_the_master_are_an_infrastructure_failure() -> None:
    policy = RestartPolicy(infrastructure_limit=3)
    status = Status(phase=Phase.RUNNING, generation=1, running_since=0, is_gone=False)
    state = JobState("j-1", 1, Job("j", (Role(replicas=3),), restart=policy), status)
    tracker = MemberTracker(1, 3, started=True)
    for member in range(3):
        tracker.start(member)
    tracker.end(0, Exit(code=1, detail="the master lost a peer"), 5_400)
    assert tracker.take_events(5_500) == []
    tracker.end(2, Exit(code=137, detail="the worker was killed"), 5_000)
    for event in tracker.take_events(5_500 + SETTLING_MS):
        state, _ = step(state, event, 5_500 + SETTLING_MS)
    failure = state.status.last_failure
    assert failure is not None
    assert (failure.kind, failure.message, failure.at) == (INFRASTRUCTURE, "the worker was killed", 5_000)
    assert (state.status.user_failures, state.status.phase) == (0, Phase.RESTARTING)


def test_a_finish_time_in_the_future_is_taken_for_now() -> None:
    state = JobState("j-1", 1, Job("j", (Role(),)), Status(phase=Phase.RUNNING, generation=1, is_gone=False))
    after, _ = step(state, MemberExited(1, 0, Exit(code=1), at=99), 5)
    assert after.status.last_failure is not None
    assert after.status.last_failure.at == 5
