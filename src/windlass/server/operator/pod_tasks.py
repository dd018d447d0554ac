"""The pods of a gang as what the faces call tasks: who, where, and how it ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from windlass.core.status import JobState
from windlass.jobs.kubernetes import own_labels, pods
from windlass.worlds.kubernetes import pod_ends
from windlass.worlds.kubernetes.client.objects import Pod
from windlass.worlds.kubernetes.runs import Stage
from windlass.worlds.kubernetes.seating import generation_of

_ROLES = (own_labels.ROLE, pods.REPLICA_TYPE, pods.JOB_ROLE)
_INDEXES = (own_labels.REPLICA_INDEX, pods.REPLICA_INDEX)
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


@dataclass(frozen=True, slots=True)
class PodTask:
    """One member of one generation. The fields are those of a local rank, and the pod's name.

    `code`, `signal` None: not ended, or its end was not seen.
    """

    job_id: str
    generation: int
    rank: int
    """Counts over the gang, as its members do; ranks inside of a pod are the program's own."""
    role: str
    replica: int
    node: str
    pod: str
    devices: tuple[str, ...] = ()
    pid: None = None
    started: None = None
    code: int | None = None
    signal: int | None = None
    detail: str = ""

    @property
    def ended(self) -> bool:
        """Whether its end was seen."""
        return self.code is not None or self.signal is not None or bool(self.detail)


def tasks_of(state: JobState, found: Iterable[Pod]) -> list[PodTask]:
    """The pods that are on nodes, or were, in order."""
    made = [_task(state, pod) for pod in found if generation_of(pod) and pod.spec.node_name]
    return sorted(made, key=lambda task: (task.generation, task.rank))


def told_container(pod: Pod) -> str:
    """Whose log tells most: the container that failed, else the one that stands for the pod."""
    failed = (c.name for c in pod.status.container_statuses if c.state.terminated and c.state.terminated.exit_code)
    first = pod.spec.containers[0].name if pod.spec.containers else ""
    return next(failed, pod.metadata.annotations.get(DEFAULT_CONTAINER) or first)


def merged(kept: Sequence[PodTask], seen: Sequence[PodTask]) -> list[PodTask]:
    """What was written down and what is there, each member once: an end that was seen is not lost with its pod."""
    found = {(task.generation, task.rank): task for task in kept}
    for task in seen:
        known = found.get((task.generation, task.rank))
        if known is None or not known.ended or task.ended:
            found[task.generation, task.rank] = task
    return [found[key] for key in sorted(found)]


def _task(state: JobState, pod: Pod) -> PodTask:
    labels = pod.metadata.labels
    role = next((labels[name] for name in _ROLES if name in labels), "")
    index = next((int(text) for name in _INDEXES if (text := labels.get(name, "")).isdecimal()), 0)
    seen = pod_ends.seen(pod, 0, 0)
    exit = seen.exit if seen.stage is Stage.ENDED else None
    return PodTask(
        job_id=state.id,
        generation=generation_of(pod),
        rank=_before(state, role) + index,
        role=role,
        replica=index,
        node=pod.spec.node_name,
        pod=pod.metadata.name,
        code=exit.code if exit else None,
        signal=exit.signal if exit else None,
        detail=exit.detail if exit else "",
    )


def _before(state: JobState, role: str) -> int:
    """How many members the roles before this one have."""
    return sum(size for _, size in _until(role, _sizes(state)))


def _until(role: str, sizes: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    for name, size in sizes:
        if name == role:
            return
        yield name, size


def _sizes(state: JobState) -> Iterator[tuple[str, int]]:
    placed = state.status.placement.nodes if state.status.placement else {}
    for role in state.job.roles:
        yield role.name, len(placed.get(role.name, ())) or role.replicas
