"""Pods of a gang that fail, and because of which it restarts."""

from __future__ import annotations

import msgspec

from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.jobs.kubernetes.status.member_conditions import SHOWN, Failing


def failing_pods(gang: Gang, restarted: int | None = None) -> Failing:
    """Returns the pods that fail, of a gang whose pods restart one by one.

    `restarted`: a member that is restarted; its pod that failed counts although it may be gone.
    """
    run = gang.run
    if run is None or not run.alone:
        return Failing()
    optional = {role.name for role in gang.job.roles if role.optional}
    failing = run.pods.failing | (run.pods.last_failing.keys() & {restarted})
    numbers = sorted(number for number in failing if run.slots[number].role not in optional)
    shown = (run.pods.last_failing[number] for number in numbers[:SHOWN])
    return Failing(len(numbers), tuple(msgspec.to_builtins(pod) for pod in shown))
