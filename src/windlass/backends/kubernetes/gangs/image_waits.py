"""Pods of a run that wait for an image which the kubelet cannot pull, as a condition of their job.

Source of the reasons: k8s.io/kubernetes v1.36, pkg/kubelet/images/types.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from windlass.backends.kubernetes.client.objects import Pod

IMAGES_PULLED = "ImagesPulled"
"""A condition that is false while pods wait, and else absent."""
_NAMED_PODS = 3
_REASONS = (
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "RegistryUnavailable",
    "SignatureValidationFailed",
)


class ImageWait(NamedTuple):
    """The first container of a pod that waits for its image."""

    container: str
    reason: str
    message: str


def image_condition(pods: Iterable[Pod], before: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The condition of the job of some pods; None while none of them waits.

    `before`: the job's conditions. An earlier condition about the same pods stays: kubelets change their message with
    each attempt.
    """
    waits = [(pod.metadata.name, wait) for pod in pods if (wait := wait_of(pod)) is not None]
    if not waits:
        return None
    names = ", ".join(name for name, _ in waits[:_NAMED_PODS])
    more = f" and {len(waits) - _NAMED_PODS} more pods" if len(waits) > _NAMED_PODS else ""
    wait = waits[0][1]
    about = f"no image for container {wait.container} of {names}{more}: "
    for each in before:
        if each["type"] == IMAGES_PULLED and str(each.get("message", "")).startswith(about):
            return each
    return {"type": IMAGES_PULLED, "status": "False", "reason": wait.reason, "message": f"{about}{wait.message}"}


def wait_of(pod: Pod) -> ImageWait | None:
    """The container of a pod that waits for its image; None if none does."""
    if pod.status.phase != "Pending":
        return None
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = status.state.waiting
        if waiting is not None and waiting.reason in _REASONS:
            return ImageWait(status.name, waiting.reason, waiting.message or waiting.reason)
    return None
