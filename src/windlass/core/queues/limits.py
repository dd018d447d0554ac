"""Limits of a queue besides its quota: the number of running jobs, and usage per user.

A limit of a queue covers it and all below it together. A gang that waits for a limit does not hold others back.
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass.core.model.reasons import Limit, Reason, Verdict, format_count
from windlass.core.model.resources import GPU
from windlass.core.queues.queue_tree import Amounts, Tree, charge, gpu_thousandths
from windlass.core.queues.quota import format_amount, maximum_quota, resource_verdict
from windlass.core.queues.usage import QueueUsage


def find_limit(usage: QueueUsage, queue: str, user: str, request: Amounts, *, jobs: int = 1) -> Verdict | None:
    """Returns the first limit, from the queue up to its root, that blocks a gang of the user; None: no limit does.

    ExceedsMaxQuota if it would even without any other usage, else WaitingForQuota. `jobs` is 0 for the growth of a gang
    that runs already.
    """
    tree = usage.tree
    if not tree.job_limited:
        return None
    for level in tree.path.get(queue, ()):
        if level in tree.job_limited:
            for found in _limits_of(usage, level, user, request, jobs):
                return found
    return None


def priority_fault(name: str, most: int | None, priority: int) -> str:
    """Returns why a job may not have this priority in the queue by a number, with the fix; "" if it may."""
    if most is None or priority <= most:
        return ""
    return f"asks for priority {priority}, and jobs of queue {name} may ask for {most} at most; lower it"


def user_maximum(tree: Tree, queue: str, resource: str, amount: int) -> int:
    """Returns `amount`, or the most that a user may ever hold in the queue if that is less, in the resource's unit."""
    part = gpu_thousandths(resource)
    name, wanted = (GPU, amount * part) if part else (resource, amount)
    most = maximum_quota(tree, queue, name)
    limits = [charge(rules, name) for level in tree.path[queue] if name in (rules := tree.queues[level].user_limits)]
    least: int = min([wanted, *limits, *(() if most is None else (most,))])
    return least // (part or 1)


def _limits_of(usage: QueueUsage, level: str, user: str, request: Amounts, jobs: int) -> Iterator[Verdict]:
    rules = usage.tree.queues[level]
    for name, most in sorted(rules.user_limits.items()):
        requested, allowed = charge(request, name), charge({name: most}, name)
        if requested > allowed:
            text = (
                f"asks for {format_amount(name, requested)} {name}, "
                f"a user may hold {format_amount(name, allowed)} in queue {level}"
            )
            yield resource_verdict(Reason.EXCEEDS_MAX_QUOTA, text, name, requested, limit=Limit.USER)
        held = usage.user_usage(level, user).amounts.get(name, 0)
        if requested > 0 and held + requested > allowed:
            text = (
                f"needs {format_amount(name, requested)} {name}: "
                f"{user or 'its user'} holds {format_amount(name, held)} of the "
                f"{format_amount(name, allowed)} {name} that a user may hold in queue {level}"
            )
            yield resource_verdict(Reason.WAITING_FOR_QUOTA, text, name, requested, max(allowed - held, 0), Limit.USER)
    if jobs:
        yield from _job_limits(usage, level, user)


def _job_limits(usage: QueueUsage, level: str, user: str) -> Iterator[Verdict]:
    rules = usage.tree.queues[level]
    per_user, in_all = rules.user_running, rules.max_running
    if per_user and (running := usage.user_usage(level, user).jobs) >= per_user:
        text = (
            f"{user or 'its user'} runs {format_count(running, 'job')} in queue {level}, and a user may run {per_user}"
        )
        yield Verdict(Reason.WAITING_FOR_QUOTA, text, "jobs", 1, limit=Limit.USER_JOBS)
    if in_all and (running := usage.user_usage(level).jobs) >= in_all:
        text = f"queue {level} runs {format_count(running, 'job')}, and may run {in_all} at a time"
        yield Verdict(Reason.WAITING_FOR_QUOTA, text, "jobs", 1, limit=Limit.QUEUE_JOBS)
