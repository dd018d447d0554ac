"""What the pods of a job are doing, counted by replica type.

Source: kubeflow/training-operator v1.9, pkg/core/{pod,status,job}.go. Pods are as the API gives them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.parsed_job import ParsedJob, Replicas
from windlass.launch.replica_names import replica_name

_RETRYABLE = 128
"""The first exit code that the restart policy ExitCode takes for a machine's fault."""
_LAUNCHER = "Launcher"


@dataclass(slots=True)
class Count:
    """Pods of one replica type."""

    replicas: Replicas
    active: list[Manifest] = field(default_factory=list)
    succeeded: list[Manifest] = field(default_factory=list)
    failed: list[Manifest] = field(default_factory=list)
    """Also those that are being deleted while they run: on a dead node no pod reaches the phase Failed."""


def member_names(parsed: ParsedJob) -> dict[str, tuple[Replicas, int]]:
    """What each pod is called, in the order of ranks. The launcher of an MPIJob has no index."""
    return {
        name_of(parsed, replicas, index): (replicas, index)
        for replicas in parsed.replicas
        for index in range(replicas.count)
    }


def name_of(parsed: ParsedJob, replicas: Replicas, index: int) -> str:
    """The name of one pod."""
    if replicas.type == _LAUNCHER:
        return f"{parsed.name}-{replicas.role}"
    return replica_name(parsed.name, replicas.stem or replicas.role, index)


def pod_name(pod: Manifest) -> str:
    """A pod's name."""
    return str(pod["metadata"]["name"])


def phase(pod: Manifest) -> str:
    """Pending, Running, Succeeded, Failed or Unknown."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def leaving(pod: Manifest) -> bool:
    """Whether somebody has deleted it."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def counts(parsed: ParsedJob, pods: Iterable[Manifest]) -> dict[str, Count]:
    """By replica type. Pods that belong to no replica are not counted."""
    names = member_names(parsed)
    found = {replicas.type: Count(replicas) for replicas in parsed.replicas}
    for pod in pods:
        if pod_name(pod) in names:
            count = found[names[pod_name(pod)][0].type]
            match phase(pod):
                case "Running":
                    (count.failed if leaving(pod) else count.active).append(pod)
                case "Succeeded":
                    count.succeeded.append(pod)
                case "Failed":
                    count.failed.append(pod)
    return found


def exit_code(pod: Manifest, container: str = "") -> int | None:
    """The code with which a container ended, or the first that ended badly; None if nobody knows."""
    ends = [_terminated(each) for each in statuses(pod) if container in ("", each.get("name"))]
    codes = [int(end["exitCode"]) for end in ends if "exitCode" in end]
    return next((code for code in codes if code), codes[0] if codes else None)


def statuses(pod: Manifest, *, init: bool = False) -> Sequence[Mapping[str, Any]]:
    """Of its containers; of the init containers too with `init`."""
    status = pod.get("status") or {}
    return [*((status.get("initContainerStatuses") or []) if init else []), *(status.get("containerStatuses") or [])]


def _terminated(status: Mapping[str, Any]) -> Mapping[str, Any]:
    return (status.get("state") or {}).get("terminated") or {}


def retryable(pod: Manifest, replicas: Replicas, container: str) -> bool:
    """Whether a pod that has failed is to be made anew."""
    if phase(pod) != "Failed" or replicas.restart == "Never":
        return False
    code = exit_code(pod, container) if replicas.restart == "ExitCode" else None
    return code is None or code >= _RETRYABLE  # of a pod that never came to run, no code is known


def restarts(pods: Iterable[Manifest]) -> int:
    """How often the kubelets have started containers of running pods anew."""
    running = [pod for pod in pods if phase(pod) == "Running"]
    return sum(int(each.get("restartCount") or 0) for pod in running for each in statuses(pod, init=True))


def why(pod: Manifest) -> str:
    """Why a pod has failed: "digits-worker-1 exited with code 1"."""
    status = pod.get("status") or {}
    name, code = pod_name(pod), exit_code(pod)
    reasons = [reason for each in statuses(pod) if (reason := _terminated(each).get("reason"))]
    special = next((reason for reason in [status.get("reason"), *reasons] if reason not in (None, "Error")), None)
    if leaving(pod) and phase(pod) == "Running":
        return f"{name} is being deleted"
    if code is not None:
        return f"{name} exited with code {code}" + (f" ({special})" if special else "")
    return f"{name} failed" + (f" ({special})" if special else "")
