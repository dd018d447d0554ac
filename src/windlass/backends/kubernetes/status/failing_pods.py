"""Pods of a gang that fail, and because of which it restarts."""

from __future__ import annotations

import msgspec

from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.run import Run
from windlass.backends.kubernetes.gangs.run_pods import is_leaving
from windlass.core.model.status import Status
from windlass.jobs.kubernetes.status.member_conditions import SHOWN, Failing


def failing_pods(gang: Gang, life: Status, restarted: int | None = None) -> Failing:
    """Returns the pods that fail and restart, of a gang whose pods restart one by one.

    `life`: the status that decides which members restart: a failure that it has not decided on may end the job, and
    does not count. `restarted`: a member that is restarted; its pod that failed counts although it may be gone.
    """
    run = gang.run
    if run is None or not run.alone:
        return Failing()
    optional = {role.name for role in gang.job.roles if role.optional}
    failing = {number for number in run.pods.failing if _restarts(run, life, number)}
    failing |= run.pods.last_failing.keys() & {restarted}
    numbers = sorted(number for number in failing if run.slots[number].role not in optional)
    shown = (run.pods.last_failing[number] for number in numbers[:SHOWN])
    return Failing(len(numbers), tuple(msgspec.to_builtins(pod) for pod in shown))


def _restarts(run: Run, life: Status, number: int) -> bool:
    """Tells whether a failing member restarts: one whose pod is being deleted does, whatever is decided later."""
    pod = run.pods.get(number)
    return (pod is not None and is_leaving(pod)) or bool(life.restarting_members >> number & 1)
