"""Members that a kubelet restarts in place again and again: how often, how they end, and when the next start is due.

A kubelet waits for 10 s before it restarts a container that has ended, twice as long after each further end, and at
most for five minutes, counted from the end; ten minutes without an end reset that. Source: k8s.io/kubernetes v1.36,
pkg/kubelet/kubelet.go (MaxContainerBackOff) and pkg/kubelet/kuberuntime/kuberuntime_manager.go (doBackOff).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from windlass.backends.kubernetes.client.objects import ContainerStatus, Pod, Terminated
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.run import Run
from windlass.backends.kubernetes.status.member_waits import MemberWait
from windlass.core.model.job import Job
from windlass.core.model.moments import format_moment_utc
from windlass.core.model.reasons import format_count
from windlass.jobs.kubernetes.status.status_times import milliseconds

BACKING_OFF, RESTARTED = "CrashLoopBackOff", "RestartedInPlace"
"""Words for a container that waits for its next start, and for one that runs again at present."""
_STEADY_MS = 600_000
"""A container that has run this long is not restarted again and again."""
_BACKOFF = re.compile(r"back-off (?:([0-9]{1,3})h)?(?:([0-9]{1,3})m)?(?:([0-9]{1,3})s)? restarting")
"""Form of the kubelet's message, with a duration as Go writes it: "1m20s"."""
_MAX_MESSAGE = 2_000
"""Characters of a container's own termination message."""


class _Restarts(NamedTuple):
    """A container that is restarted, its last end, and its pod."""

    number: int
    pod: Pod
    container: ContainerStatus
    end: Terminated


def restart_wait(gang: Gang, now: int) -> MemberWait | None:
    """Returns the member that is restarted most often, and the number of others; None if none is. `now` in ms."""
    found = _restarting(gang, now)
    if not found:
        return None
    worst, others = found[0], len(found) - 1
    ranks = _ranks(gang.job, worst.number, gang.run)
    about = f"{ranks} (container {worst.container.name} of {worst.pod.metadata.name})"
    more = f"; so {'does' if others == 1 else 'do'} {format_count(others, 'other member')}" if others else ""
    waits = worst.container.state.waiting is not None
    return MemberWait(BACKING_OFF if waits else RESTARTED, f"{about} ends again and again: {_history(worst)}{more}")


def last_message(gang: Gang, now: int) -> str:
    """Returns what the program of that member has written for its kubelet when it ended last; "" if nothing."""
    found = _restarting(gang, now)
    return found[0].end.message[-_MAX_MESSAGE:] if found else ""


def _restarting(gang: Gang, now: int) -> list[_Restarts]:
    """Returns the containers that are restarted again and again, one for each member, most restarts first."""
    run = gang.run
    if run is None or run.stopping or not run.pods.container_restarts:
        return []
    found = {each.number: each for each in _containers(run, now)}
    return sorted(found.values(), key=lambda each: (-each.container.restart_count, each.number))


def _containers(run: Run, now: int) -> Iterator[_Restarts]:
    for number, pod in run.pods.by_number.items():
        if number >= len(run.slots) or pod.status.phase != "Running":
            continue
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            end = status.state.terminated or status.last_state.terminated
            if end is not None and status.restart_count and _is_unsteady(status, now):
                yield _Restarts(number, pod, status, end)


def _is_unsteady(status: ContainerStatus, now: int) -> bool:
    """Tells whether a restarted container waits for its next start, or has been restarted twice and has just begun."""
    if status.state.waiting is not None:
        return status.state.waiting.reason == BACKING_OFF
    if status.state.running is None or status.restart_count < 2:
        return False
    return now - (milliseconds(status.state.running.started_at) or 0) < _STEADY_MS


def _ranks(job: Job, number: int, run: Run | None) -> str:
    """Returns "rank 3", or "ranks 8 to 15" for a member with several."""
    procs = {role.name: role.procs for role in job.roles}
    slots = run.slots if run is not None else ()
    first = sum(procs.get(slot.role, 1) for slot in slots[:number])
    count = procs.get(slots[number].role, 1)
    return f"rank {first}" if count == 1 else f"ranks {first} to {first + count - 1}"


def _history(of: _Restarts) -> str:
    """Returns the number of restarts, the last end, and the next start or the present one."""
    began = milliseconds(of.pod.status.start_time)
    since = f" since {format_moment_utc(began)}" if began is not None else ""
    ended = milliseconds(of.end.finished_at)
    at = f" at {format_moment_utc(ended)}" if ended is not None else ""
    how = f"exit code {of.end.exit_code}{f' ({of.end.reason})' if of.end.reason else ''}"
    return f"{format_count(of.container.restart_count, 'restart')}{since}, last {how}{at}{_next(of, ended)}"


def _next(of: _Restarts, ended: int | None) -> str:
    waiting, running = of.container.state.waiting, of.container.state.running
    if running is not None:
        started = milliseconds(running.started_at)
        return "" if started is None else f", runs again since {format_moment_utc(started)}"
    found = _BACKOFF.search(waiting.message) if waiting is not None else None
    if found is None or ended is None:
        return ""
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return f", next start at {format_moment_utc(ended + 1000 * (3600 * hours + 60 * minutes + seconds))}"
