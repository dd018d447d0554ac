"""The obstacle for which a job does not run, as far as it lasts until its owner or an administrator acts.

A job that waits only for its turn or for free nodes has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.gangs.event_obstacles import PLACEMENT
from windlass.backends.kubernetes.gangs.gang import WAITING, Gang
from windlass.backends.kubernetes.status.member_waits import MemberWait, member_wait, pods_without_image
from windlass.backends.kubernetes.status.restarting_members import BACKING_OFF, last_message, restart_wait
from windlass.core.model.reasons import PERMANENT_REASONS
from windlass.core.model.status import Phase

NOT_CREATED = "FailedCreatePod"
"""Word of a job whose pods or dependent objects cannot be created."""
_CONTAINER_TOPICS = {
    "CreateContainerConfigError": "configuration",
    "CreateContainerError": "creation",
    "RunContainerError": "program",
    "CrashLoopBackOff": "program",
}
"""Topics by the reason of a container's wait.

Source: k8s.io/kubernetes v1.36, pkg/kubelet/container/sync_result.go and pkg/kubelet/kuberuntime.
"""


class WaitKind(StrEnum):
    """The event that the job waits for."""

    OBJECT = "object"
    """An object that it names, such as a claim."""
    CREATION = "creation"
    """The creation of its pods, which the API server refuses."""
    START = "start"
    """The start of pods that are bound, or of containers that have ended and are restarted in place."""
    ADMISSION = "admission"
    """Its admission, by a reason that lasts until the job, its queue or the nodes change."""


class JobWait(NamedTuple):
    """An obstacle, as lines of evidence. `generation`: the attempt that waits; 0: none has been admitted.

    `topic`: the subject of a wait for the start of pods; a kubelet alternates between messages about one topic.
    """

    kind: WaitKind
    text: str
    generation: int = 0
    topic: str = ""
    from_events: bool = False
    """Whether lines of it are Events, which any user with the right to write Events in the namespace can write."""


def job_wait(gang: Gang, now: int) -> JobWait | None:
    """Returns the obstacle of a job; None without one. `now`: in ms since the epoch."""
    notes, life = gang.notes, gang.status
    if gang.fit.waiting_reason:
        return JobWait(WaitKind.OBJECT, f"{WAITING}: {gang.fit.waiting_reason}")
    attempt = life.generation if life.phase is Phase.ADMITTED else 0
    if notes.creation_error and life.phase in (Phase.QUEUED, Phase.ADMITTED):
        return JobWait(WaitKind.CREATION, f"{NOT_CREATED}: {notes.creation_error}", attempt)
    if attempt:
        return _start_wait(gang, attempt)
    if life.phase is Phase.RUNNING and (restarts := restart_wait(gang, now)) is not None:
        said = last_message(gang, now)
        with_message = MemberWait(restarts.reason, f"{restarts.message}\n{said}" if said else restarts.message)
        return _job_wait(with_message, life.generation, _CONTAINER_TOPICS[BACKING_OFF])
    if life.phase is Phase.QUEUED and notes.pending_reason in PERMANENT_REASONS:
        return JobWait(WaitKind.ADMISSION, f"{notes.pending_reason}: {notes.pending_message}")
    return None


def needs_events(gang: Gang) -> bool:
    """Tells whether pods of an attempt do not start by an obstacle that neither they nor the gang name."""
    life, run = gang.status, gang.run
    if life.phase is not Phase.ADMITTED or run is None or run.stopping or gang.notes.creation_error:
        return False
    return not pods_without_image(gang) and container_wait(gang) is None


def _start_wait(gang: Gang, attempt: int) -> JobWait | None:
    """Returns what keeps bound pods from starting."""
    member, seen = member_wait(gang), gang.notes.event_obstacle
    if seen is not None and seen.attempt != attempt:
        seen = None
    if member is not None and pods_without_image(gang):
        return _job_wait(member, attempt, "image")
    if member is not None:
        told = "" if seen is None else f"\n{seen.text}"
        return JobWait(WaitKind.START, f"{member.reason}: {member.message}{told}", attempt, PLACEMENT, bool(told))
    if (wait := container_wait(gang)) is not None:
        return _job_wait(wait, attempt, _CONTAINER_TOPICS[wait.reason])
    return None if seen is None else JobWait(WaitKind.START, seen.text, attempt, seen.topic, from_events=True)


def _job_wait(wait: MemberWait, attempt: int, topic: str) -> JobWait:
    return JobWait(WaitKind.START, f"{wait.reason}: {wait.message}", attempt, topic)


def container_wait(gang: Gang) -> MemberWait | None:
    """Returns the first container that its kubelet cannot start."""
    if gang.run is None or gang.run.stopping:
        return None
    return next(_container_waits(gang.run.pods.all()), None)


def _container_waits(pods: Iterable[Pod]) -> Iterator[MemberWait]:
    for pod in pods:
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            waiting = status.state.waiting
            if waiting is not None and waiting.reason in _CONTAINER_TOPICS:
                about = f"container {status.name} of {pod.metadata.name}"
                yield MemberWait(waiting.reason, f"{about}: {waiting.message or waiting.reason}")
