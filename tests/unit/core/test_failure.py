"""Whose fault it was, and how long until the next try."""

import signal

import pytest

from windlass.core.events import Declared, Exit
from windlass.core.failure import backoff, count_failure, exhausted, judge
from windlass.core.job import RestartPolicy
from windlass.core.status import Failure, FailureClass, Status

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
        (Exit(code=83, declared=Declared.PREEMPTED), PREEMPTION, "Preempted", False),
        (Exit(code=85, declared=Declared.FATAL), USER, "AskedForNoRetry", True),
        (Exit(code=42), INFRASTRUCTURE, "RetryableExitCode", False),
        (Exit(code=43), USER, "FatalExitCode", True),
        (Exit(code=84, declared=Declared.RETRY), USER, "FatalExitCode", True),  # the job's own list comes first
    ],
)
def test_a_failure_is_classed(exit: Exit, kind: FailureClass, reason: str, fatal: bool) -> None:
    judgement = judge(exit, POLICY)
    assert (judgement.kind, judgement.reason, judgement.fatal) == (kind, reason, fatal)


@pytest.mark.parametrize(("step", "wait"), [(0, 0), (1, 0), (2, 1_000), (3, 2_000), (4, 4_000), (20, 300_000)])
def test_backoff_spares_the_first_failure_then_doubles_to_a_bound(step: int, wait: int) -> None:
    assert backoff(step, RestartPolicy()) == wait


def test_only_user_failures_use_up_the_user_limit() -> None:
    status = Status(running_since=0)
    for kind in (INFRASTRUCTURE, PREEMPTION, INFRASTRUCTURE):
        status = Status(running_since=0, **count_failure(status, Failure(kind, "x", "x", at=1), RestartPolicy()))
    assert exhausted(status, RestartPolicy()) == ""
    status = Status(running_since=0, **count_failure(status, Failure(USER, "x", "x", at=1), RestartPolicy()))
    assert (status.user_failures, status.infrastructure_failures, status.preemptions) == (1, 2, 1)
    assert "1 failure of the program, 0 forgiven" in exhausted(status, RestartPolicy())


def test_infrastructure_failures_are_bounded_too() -> None:
    assert "17 failures of infrastructure" in exhausted(Status(infrastructure_failures=17), RestartPolicy())


def test_a_healthy_run_starts_the_backoff_afresh() -> None:
    tired = Status(running_since=0, backoff_step=7)
    policy = RestartPolicy(healthy_after=600_000)
    assert count_failure(tired, Failure(USER, "x", "x", at=599_999), policy)["backoff_step"] == 8
    assert count_failure(tired, Failure(USER, "x", "x", at=600_000), policy)["backoff_step"] == 1
