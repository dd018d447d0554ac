"""Classifies the stage and the end of a pod for the core, with a description in words.

Sources: the Kubernetes API reference (PodStatus, ContainerState); the kubelet's reasons for containers that wait, from
pkg/kubelet/{images,container,kuberuntime}; KEP-3329 for disruptions of a pod from outside.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from windlass.backends.kubernetes.client.objects import ContainerStatus, Pod, Terminated, Waiting
from windlass.core.lifecycle.events import Exit
from windlass.core.lifecycle.failure import EVICTED, NODE_OUT_OF_MEMORY, OUT_OF_MEMORY, REJECTED
from windlass.jobs.kubernetes.kinds.pytorchjob import WAITER
from windlass.jobs.kubernetes.status.status_times import milliseconds
from windlass.wire import classify_end

_NEVER_RAN = ("StartError", "ContainerCannotRun", "CreateContainerError", "RunContainerError")
"""Reasons of a terminated container whose program did not begin."""
_LOST = ("Unknown", "ContainerStatusUnknown")
"""Reasons of a terminated container whose end was not observed. Its exit code (255, 137) and time are made up.

containerd reports the first for a task that ended while containerd was down, whatever its exit code: it takes the shim
for a leaked one (core/runtime/v2/shim_load.go) and the task for a deleted one (internal/cri/server/restart.go). The
kubelet reports the second for a container that the runtime does not know any more (pkg/kubelet/kubelet_pods.go).
"""
_HOPELESS = (
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
)
_SLOW = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "SignatureValidationFailed")
"""Reasons that become final after a while only: the registry may come back."""
_RUNTIME_UNREACHABLE = (
    "error reading from server",
    "connection error: desc",
    "transport is closing",
    "context deadline exceeded",
)
"""Beginnings of the messages of `_HOPELESS` reasons that become final after a while only, as above.

The kubelet writes the text of grpc-go's error (kuberuntime_container.go), and starts the container again.
"""
_REFUSED_BY_KUBELET = ("OutOf", "UnexpectedAdmissionError", "NodeAffinity", "TopologyAffinityError", "Preempting")
_CANNOT_START = 127
"""Exit code of a shell for a command that it cannot start."""
_OUT_OF_MEMORY = "OOMKilled"
"""Reason of a container that the kernel killed, for its own limit or because the node ran out of memory."""


class Stage(Enum):
    """Stage of a pod's life."""

    WAITING = "waiting"
    """On no node, or on its node and not started."""
    RUNNING = "running"
    ENDED = "ended"
    """Nothing of it runs any more."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Result of observing a pod once."""

    stage: Stage
    exit: Exit | None = None
    """Its end, or why it will never start; None while neither is known."""
    ran: bool = False
    """Whether its program has begun."""
    at: int | None = None
    """Time of its end in ms, as its containers report it."""


def observe(pod: Pod, now: int, image_pull_timeout: int) -> Observation:
    """Returns the stage and the end of a pod.

    `image_pull_timeout`: ms from the pod's start for which image pulls may fail.
    """
    if pod.status.has_ended:
        ran = any(end.reason not in _NEVER_RAN for end in _terminated(pod))
        return Observation(Stage.ENDED, end_of(pod), ran, _finished(pod))
    if pod.status.phase == "Running":
        return Observation(Stage.RUNNING, ran=True)
    return Observation(Stage.WAITING, _never(pod, now, image_pull_timeout))


def due(pod: Pod, image_pull_timeout: int) -> int | None:
    """Returns the time in ms at which its image pulls have failed for too long; None while they do not fail."""
    slow = any(status.state.waiting and _may_pass(status.state.waiting) for status in _containers(pod))
    return (
        _started(pod) + image_pull_timeout
        if slow and not (pod.status.has_ended or pod.status.phase == "Running")
        else None
    )


def waits_for_master(pod: Pod) -> bool:
    """Tells whether the pod has an init container that waits for the master's name, and it has not succeeded."""
    ended = (each.state.terminated for each in pod.status.init_container_statuses if each.name == WAITER)
    has_found = any(end is not None and end.exit_code == 0 for end in ended)
    return not has_found and any(each.name == WAITER for each in pod.spec.init_containers)


def was_turned_away(pod: Pod) -> bool:
    """Tells whether the kubelet has rejected the pod: it would reject another pod like it too."""
    return pod.status.reason.startswith(_REFUSED_BY_KUBELET)


def end_of(pod: Pod) -> Exit:
    """Returns the end of a pod that has ended."""
    name = _pod_on_node(pod)
    if pod.status.phase == "Succeeded":
        return Exit(code=0, detail=f"{name} succeeded")
    if (reason := pod.status.reason) and (outside := _from_outside(pod, reason)):
        return outside
    bad = _first_failed(pod)
    if bad is None:
        reason = _reason_and_message(pod.status.reason, pod.status.message)
        return _disrupted(pod) or Exit(lost=True, detail=f"{name} failed{reason}")
    return _disrupted(pod) or _exit(pod, bad)


def _from_outside(pod: Pod, reason: str) -> Exit | None:
    """Returns the end of a pod that the kubelet or a controller has ended, or never started."""
    detail = f"{_pod_on_node(pod)}: {reason}{_after_colon(pod.status.message)}"
    if was_turned_away(pod):
        return Exit(lost=True, end_class=REJECTED, detail=detail)
    if reason in ("Evicted", "NodeLost", "NodeShutdown", "Terminated", "Shutdown"):
        return Exit(lost=True, end_class=EVICTED, detail=detail)
    return None


def _disrupted(pod: Pod) -> Exit | None:
    """Returns the end of a pod with the condition DisruptionTarget, which names the reason."""
    found = next((c for c in pod.status.conditions if c.type == "DisruptionTarget" and c.status == "True"), None)
    if found is None:
        return None
    detail = f"{_pod_on_node(pod)}: {found.reason}{_after_colon(found.message)}"
    return Exit(lost=True, end_class=EVICTED, detail=detail)


def _exit(pod: Pod, status: ContainerStatus) -> Exit:
    end, name = status.state.terminated, _pod_on_node(pod)
    assert end is not None  # noqa: S101 - see end_of
    code = end.exit_code
    if end.reason in _LOST:
        lost = f"the end of container {status.name} was not observed ({end.reason})"
        return Exit(lost=True, detail=f"{name}: {lost}{_after_colon(end.message)}")
    if end.reason in _NEVER_RAN:
        return Exit(code=_CANNOT_START, detail=f"{name} cannot start{_after_colon(end.message or end.reason)}")
    if end.reason == _OUT_OF_MEMORY:
        limit = _memory_limit(pod, status.name)
        why = f"its memory limit is {limit}" if limit else "its node had no memory left, the container has no limit"
        end_class = OUT_OF_MEMORY if limit else NODE_OUT_OF_MEMORY
        return Exit(code=code, end_class=end_class, detail=f"{name} was killed by the kernel (OOMKilled): {why}")
    if phrase := classify_end(code, None).phrase:
        return Exit(code=code, detail=f"{name} {phrase} (exit code {code})")
    special = "" if end.reason in ("", "Error") else f" ({end.reason})"
    by = f" ({_signal(code - 128)})" if 128 < code <= 128 + 64 and not special else special
    return Exit(code=code, detail=f"{name} exited with code {code}{by}{_after_colon(_last_line(end.message))}")


def _memory_limit(pod: Pod, container: str) -> str:
    """Returns the memory limit that the kernel enforces on a container: its own, else the pod's; "" if it has none."""
    of_pod = (*pod.spec.containers, *pod.spec.init_containers)
    own = next((each.resources for each in of_pod if each.name == container), None)
    limits = ((own.limits if own else {}), pod.spec.resources.limits)
    return next((limit for each in limits if (limit := each.get("memory", ""))), "")


def _never(pod: Pod, now: int, image_pull_timeout: int) -> Exit | None:
    """Returns why a pod will never start, if that is known."""
    for status in _containers(pod):
        waiting = status.state.waiting
        if waiting is None or waiting.reason not in (*_HOPELESS, *_SLOW):
            continue
        if _may_pass(waiting) and now < _started(pod) + image_pull_timeout:
            continue
        reason = f"{waiting.reason}{_after_colon(waiting.message)}"
        detail = f"{_pod_on_node(pod)}: container {status.name} cannot start: {reason}"
        return Exit(lost=True, detail=detail) if _is_unreachable(waiting) else Exit(code=_CANNOT_START, detail=detail)
    return None


def _may_pass(waiting: Waiting) -> bool:
    return waiting.reason in _SLOW or _is_unreachable(waiting)


def _is_unreachable(waiting: Waiting) -> bool:
    """Tells whether the container runtime does not answer."""
    return waiting.reason in _HOPELESS and waiting.message.startswith(_RUNTIME_UNREACHABLE)


def _pod_on_node(pod: Pod) -> str:
    """Returns the name of a pod and its node, such as "digits-worker-0 on n1"."""
    return pod.metadata.name + (f" on {pod.spec.node_name}" if pod.spec.node_name else "")


def _containers(pod: Pod) -> Iterator[ContainerStatus]:
    yield from pod.status.init_container_statuses
    yield from pod.status.container_statuses


def _ended_containers(pod: Pod) -> Iterator[tuple[ContainerStatus, Terminated]]:
    """Yields the containers that have ended, except for native sidecars.

    The kubelet stops sidecars (restartable init containers, KEP-753) after the others: their ends say nothing.
    """
    sidecars = {each.name for each in pod.spec.init_containers if each.restart_policy == "Always"}
    for status in _containers(pod):
        if status.state.terminated is not None and status.name not in sidecars:
            yield status, status.state.terminated


def _terminated(pod: Pod) -> Iterator[Terminated]:
    return (end for _, end in _ended_containers(pod))


def _first_failed(pod: Pod) -> ContainerStatus | None:
    """Returns the container that failed first; one without a finish time comes after the others."""
    failed = [each for each in _ended_containers(pod) if each[1].exit_code]
    first = min(failed, key=lambda each: (not each[1].finished_at, _time(each[1].finished_at)), default=None)
    return first[0] if first is not None else None


def _finished(pod: Pod) -> int | None:
    """Returns when the first failed container of a pod ended, else the last container, in ms since the epoch.

    None if that end was not observed.
    """
    if (bad := _first_failed(pod)) is not None and (end := bad.state.terminated) is not None:
        return _time(end.finished_at) if end.finished_at and end.reason not in _LOST else None
    return max((_time(end.finished_at) for end in _terminated(pod) if end.finished_at), default=None)


def _time(written: str | None) -> int:
    return milliseconds(written) or 0


def _started(pod: Pod) -> int:
    """Returns when the kubelet accepted the pod, or its creation time, in ms since the epoch."""
    return _time(pod.status.start_time or pod.metadata.creation_timestamp)


def _reason_and_message(reason: str, message: str) -> str:
    return f" ({reason})" * bool(reason) + _after_colon(message)


def _after_colon(message: str) -> str:
    return f": {message}" if message else ""


def _last_line(message: str) -> str:
    """Returns the last line of a termination message, which may hold the last lines of a log."""
    lines = message.strip().splitlines()
    return lines[-1][:300] if lines else ""


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
