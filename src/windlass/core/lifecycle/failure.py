"""Whose fault a failure was, whether the gang may try again, and when."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from windlass.core.lifecycle.events import Declared, Exit
from windlass.core.model.job import RestartPolicy
from windlass.core.model.status import Failure, FailureClass, Status

_FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
"""Signals that a program rarely sends itself: the kernel's OOM killer, an operator, a closing machine."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A failure with its consequence: `fatal` failures end the job whatever the limits."""

    kind: FailureClass
    reason: str
    fatal: bool = False


def judge(exit: Exit, policy: RestartPolicy) -> Judgement:
    """Class a member's failure. The job's own lists come first, then what the process declared."""
    code = exit.code
    if code is not None and code in policy.fatal_exit_codes:
        return Judgement(FailureClass.USER, "FatalExitCode", fatal=True)
    if code is not None and code in policy.retryable_exit_codes:
        return Judgement(FailureClass.INFRASTRUCTURE, "RetryableExitCode")
    if exit.declared is not None:
        return _DECLARED[exit.declared]
    if exit.lost:
        return Judgement(FailureClass.INFRASTRUCTURE, "Lost")
    number = _signal_of(exit)
    if number is None:
        return Judgement(FailureClass.USER, "ExitCode")
    outside = number in _FROM_OUTSIDE
    return Judgement(FailureClass.INFRASTRUCTURE if outside else FailureClass.USER, "Signal")


_DECLARED = {
    Declared.PREEMPTED: Judgement(FailureClass.PREEMPTION, "Preempted"),
    Declared.RETRY: Judgement(FailureClass.INFRASTRUCTURE, "AskedForRetry"),
    Declared.FATAL: Judgement(FailureClass.USER, "AskedForNoRetry", fatal=True),
}


def _signal_of(exit: Exit) -> int | None:
    """The signal that ended it, also when a shell in between reported it as 128 + signal."""
    if exit.signal is not None:
        return exit.signal
    if exit.code is not None and 128 < exit.code <= 128 + 64:
        return exit.code - 128
    return None


def exhausted(status: Status, failure: Failure, policy: RestartPolicy) -> str:
    """Which limit the failures counted so far, `failure` included, have passed, in words; "" if none.

    Leaving for a preemption costs nothing, but a program that says so again and again without ever having run for
    long is bounded like a machine that fails.
    """
    if failure.kind is FailureClass.USER and status.user_failures > policy.user_limit:
        return f"{_failures(status.user_failures)} of the program, {policy.user_limit} forgiven (restarts)"
    limit = policy.infrastructure_limit
    if failure.kind is FailureClass.INFRASTRUCTURE and status.infrastructure_failures > limit:
        return (
            f"{_failures(status.infrastructure_failures)} of infrastructure, {limit} forgiven (restart.infrastructure)"
        )
    if failure.kind is FailureClass.PREEMPTION and failure.member is not None and status.backoff_step > limit:
        in_a_row = f"left {status.backoff_step} times in a row without a healthy run"
        return f"{in_a_row}, {limit} forgiven (restart.infrastructure)"
    return ""


def _failures(count: int) -> str:
    return f"{count} failure" if count == 1 else f"{count} failures"


def count_failure(status: Status, failure: Failure, policy: RestartPolicy) -> dict[str, int]:
    """The counters of a Status after one more failure, as changes to it.

    What the scheduler takes back (no member failed) is nobody's failure: it leads to no backoff.
    """
    kind = failure.kind
    ran = failure.at - status.running_since if status.running_since is not None else 0
    step = 1 if ran >= policy.healthy_after else status.backoff_step + 1
    taken_back = kind is FailureClass.PREEMPTION and failure.member is None
    return {
        "user_failures": status.user_failures + (kind is FailureClass.USER),
        "infrastructure_failures": status.infrastructure_failures + (kind is FailureClass.INFRASTRUCTURE),
        "preemptions": status.preemptions + (kind is FailureClass.PREEMPTION),
        "backoff_step": status.backoff_step if taken_back else step,
    }


def backoff(step: int, policy: RestartPolicy) -> int:
    """How long to wait, in ms: nothing after a first failure, then base, doubling up to the maximum."""
    if step <= 1:
        return 0
    return min(policy.backoff_base << min(step - 2, 30), policy.backoff_max)
