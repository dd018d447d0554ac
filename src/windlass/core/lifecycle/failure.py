"""Failures of a generation: the class of each end, the restart limits, and the backoff.

`wire.END_CLASSES` has the classes by exit code and signal, which an agent inside a pod applies as well. Below are the
classes that only an observer of the process can tell; a backend names one in `Exit.end_class`.
"""

from __future__ import annotations

from windlass.core.lifecycle.events import Exit
from windlass.core.model.job import RestartPolicy, VerdictUse
from windlass.core.model.status import Failure, FailureClass, Status
from windlass.wire import ASKED_FOR_RETRY, INFRASTRUCTURE, PREEMPTION, USER, EndClass, classify_end, restart_delay

OUT_OF_MEMORY = EndClass("OutOfMemory", USER)
"""Killed for exceeding the memory limit of its own container."""
NODE_OUT_OF_MEMORY = EndClass("NodeOutOfMemory", INFRASTRUCTURE)
"""Killed because its node had no memory left; the container has no limit of its own."""
EVICTED = EndClass("Evicted", INFRASTRUCTURE)
"""Ended by its node or by a drain: memory or disk pressure, shutdown, an eviction through the API."""
MPI_WORKER_EVICTED = EVICTED._replace(fatal=True)
"""A worker was evicted whose launcher is a Job: mpi-operator ends such a job."""
REJECTED = EndClass("Rejected", INFRASTRUCTURE)
"""A member could not be placed on its node, or not be created there; another node may take it."""
INVALID = EndClass("Invalid", USER, fatal=True)
"""A member can never be created as the job describes it."""
STALE_PLACEMENT = EndClass("StalePlacement", INFRASTRUCTURE)
"""A node can no longer take its part of the gang (`core.nodes.binding_check`). No restart is charged."""
NOT_LAUNCHED = EndClass("NotLaunched", INFRASTRUCTURE)
"""The state of the job could not be written, so its launch was not performed. No restart is charged."""
NODE_LOST = EndClass("NodeLost", INFRASTRUCTURE)
BACKOFF_LIMIT = EndClass("BackoffLimitExceeded", USER, fatal=True)
"""Members were restarted one by one more often than the job allows."""
START_TIMEOUT = EndClass("StartTimeout", INFRASTRUCTURE)
"""Not every member had started in time."""
VANISHED = EndClass("Lost", INFRASTRUCTURE)
"""The whole gang has ended unseen."""
PREEMPTED = EndClass("Preempted", PREEMPTION)
"""Stopped by the scheduler for another gang."""

VERDICT_WAIT_MS = 10_000
"""Longest time for which the next start waits for the diagnosis of a failure, under `VerdictUse.ACT`."""
_FAILED_LAUNCHES = (STALE_PLACEMENT.reason, NOT_LAUNCHED.reason)
_GIVES_NODES_BACK = frozenset(
    each.reason
    for each in (
        NODE_LOST,
        NODE_OUT_OF_MEMORY,
        ASKED_FOR_RETRY,
        REJECTED,
        EVICTED,
        START_TIMEOUT,
        PREEMPTED,
        STALE_PLACEMENT,
    )
)


def launcher_failure(reason: str) -> EndClass:
    """Class of the failure of a launcher's Job, which has used up its own restarts. `reason`: that of the Job."""
    return EndClass(reason, USER, fatal=True)


def end_of_stale_placement(message: str) -> Exit:
    """The end that a backend reports for the first member of a gang that it does not start. `message`: why not."""
    return Exit(lost=True, end_class=STALE_PLACEMENT, detail=message)


def classify_exit(exit: Exit, policy: RestartPolicy) -> EndClass:
    """Class of a member's failure: by the job's own lists, then as the backend observed it, then by code and signal.

    Under `restarts_after_exit=False` every exit of the program ends the job, by whatever code or signal, unless the
    backend observed that the infrastructure caused it.
    """
    listed = exit.code is not None and exit.code in (*policy.fatal_exit_codes, *policy.retryable_exit_codes)
    if exit.end_class is not None and not listed:
        found = exit.end_class
    else:
        lists = {"retryable": policy.retryable_exit_codes, "fatal": policy.fatal_exit_codes}
        found = classify_end(exit.code, exit.signal, **lists)
    observed_elsewhere = exit.lost or (exit.end_class is not None and exit.end_class.kind == INFRASTRUCTURE)
    if not (policy.restarts_after_exit or observed_elsewhere):
        return found._replace(kind=USER, fatal=True)
    return found


def has_exited_by_itself(exit: Exit, policy: RestartPolicy) -> bool:
    """Whether the program ended with a plain error code: not killed, not lost, nothing declared, no end of the job."""
    found = classify_exit(exit, policy)
    return not exit.ok and found.reason == "ExitCode" and not found.fatal


def make_failure(found: EndClass, message: str, now: int) -> Failure:
    """A failure of a class that no exit of a member has, such as an exceeded walltime."""
    return Failure(FailureClass(found.kind), found.reason, message, now)


def gives_nodes_back(failure: Failure) -> bool:
    """Whether the gang releases its nodes: they are lost, needed for a preemption, or faulty."""
    return failure.kind is FailureClass.PREEMPTION or failure.reason in _GIVES_NODES_BACK


def describe_exhausted_limit(status: Status, failure: Failure, policy: RestartPolicy) -> str:
    """The limit that the failures counted so far, `failure` included, have passed, in words; "" if none.

    A preemption counts against no limit, except that a program that leaves repeatedly after short runs is limited like
    failures of infrastructure.
    """
    if failure.kind is FailureClass.USER and status.user_failures > policy.user_limit:
        return f"{_failures(status.user_failures)} of the program, {policy.user_limit} allowed (restarts)"
    limit = policy.infrastructure_limit
    if failure.kind is FailureClass.INFRASTRUCTURE and status.infrastructure_failures > limit:
        return (
            f"{_failures(status.infrastructure_failures)} of infrastructure, {limit} allowed (restart.infrastructure)"
        )
    if failure.kind is FailureClass.PREEMPTION and failure.member is not None and status.backoff_step > limit:
        in_a_row = f"left {status.backoff_step} times in a row without a healthy run"
        return f"{in_a_row}, {limit} allowed (restart.infrastructure)"
    return ""


def _failures(count: int) -> str:
    return f"{count} failure" if count == 1 else f"{count} failures"


def count_failure(status: Status, failure: Failure, policy: RestartPolicy) -> dict[str, int]:
    """The counters of a Status after one more failure, as changes to it.

    A preemption by the scheduler (no member failed) adds nothing to the backoff. A failed launch (a stale placement or
    a launch that was not performed) counts towards no limit; its backoff has a counter of its own, because either may
    happen again and again.
    """
    if is_failed_launch(failure):
        return {"failed_launches": status.failed_launches + 1}
    kind = failure.kind
    ran = failure.at - status.running_since if status.running_since is not None else 0
    step = 1 if ran >= policy.healthy_after else status.backoff_step + 1
    by_scheduler = kind is FailureClass.PREEMPTION and failure.member is None
    return {
        "user_failures": status.user_failures + (kind is FailureClass.USER),
        "infrastructure_failures": status.infrastructure_failures + (kind is FailureClass.INFRASTRUCTURE),
        "preemptions": status.preemptions + (kind is FailureClass.PREEMPTION),
        "backoff_step": status.backoff_step if by_scheduler else step,
    }


def is_failed_launch(failure: Failure) -> bool:
    """Whether no process was started: a stale placement, or a launch that was not performed."""
    return failure.reason in _FAILED_LAUNCHES


def ended_by_failure(status: Status) -> bool:
    """Whether a generation that is gone has failed: it was not stopped by a request or for another size."""
    failure = status.last_failure
    return failure is not None and status.reason == failure.reason and not is_failed_launch(failure)


def needs_diagnosis(status: Status) -> bool:
    """Whether no diagnosis of the newest failed attempt has ended."""
    return status.failed_generation > (0 if status.diagnosis is None else status.diagnosis.generation)


def verdict_wait(status: Status, policy: RestartPolicy) -> int:
    """Longest wait for the verdict before the next start, in ms: none where the verdict has no effect."""
    failure = status.last_failure
    if policy.verdict is not VerdictUse.ACT or failure is None or failure.kind is FailureClass.PREEMPTION:
        return 0
    return VERDICT_WAIT_MS if needs_diagnosis(status) else 0


def requeue_backoff(status: Status, policy: RestartPolicy) -> int:
    """Wait before the next start of a requeued gang, in ms: after a failed launch by the number of these in a row."""
    after_launch = status.last_failure is not None and is_failed_launch(status.last_failure)
    return backoff(status.failed_launches if after_launch else status.backoff_step, policy)


def backoff(step: int, policy: RestartPolicy) -> int:
    """Wait before the next start, in ms: nothing after a first failure, then base, doubling up to the maximum."""
    return restart_delay(step, policy.backoff_base, policy.backoff_max)
