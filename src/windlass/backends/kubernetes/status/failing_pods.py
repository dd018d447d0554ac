"""Pods of a gang that fail, and because of which it restarts."""

from __future__ import annotations

import msgspec

from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.run import Run
from windlass.jobs.kubernetes.status.member_conditions import SHOWN, Failing


def failing_pods(gang: Gang, restarted: int | None = None) -> Failing:
    """Returns the pods that fail and restart, of a gang whose pods restart one by one.

    A failure that the controller has not decided on may end the job: it does not count. `restarted`: a member that is
    restarted by the decision on it; its pod that failed counts although it may be gone, and so do others that fail.
    """
    run = gang.run
    if run is None or not run.alone:
        return Failing()
    optional = {role.name for role in gang.job.roles if role.optional}
    is_decided = restarted is not None
    failing = run.pods.failing | (run.pods.last_failing.keys() & {restarted}) if is_decided else _restarting(run)
    numbers = sorted(number for number in failing if run.slots[number].role not in optional)
    shown = (run.pods.last_failing[number] for number in numbers[:SHOWN])
    return Failing(len(numbers), tuple(msgspec.to_builtins(pod) for pod in shown))


def _restarting(run: Run) -> set[int]:
    """Returns the members that fail and are to be created again."""
    return run.pods.failing & run.restarting
