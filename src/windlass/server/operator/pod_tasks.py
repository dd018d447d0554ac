"""Pods of a gang as tasks of the API: rank, node and end of each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.gangs.run_pods import generation_of
from windlass.backends.kubernetes.pods import pod_ends
from windlass.core.model.status import JobState
from windlass.core.model.steps import job_at_step
from windlass.jobs.kubernetes.labels import DEFAULT_CONTAINER


@dataclass(frozen=True, slots=True)
class PodTask:
    """One pod of one generation. The fields are those of a local rank, and the pod's name.

    `code` and `signal` are None if the pod has not ended or its end was not seen.
    """

    job_id: str
    generation: int
    rank: int
    """Index of the pod in the gang. Ranks inside of a pod are the program's own."""
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
        """Whether the pod's end was seen."""
        return self.code is not None or self.signal is not None or bool(self.detail)


def choose_container(pod: Pod) -> str:
    """The container whose log is recorded: the first that failed, else the pod's default container."""
    failed = (c.name for c in pod.status.container_statuses if c.state.terminated and c.state.terminated.exit_code)
    first = pod.spec.containers[0].name if pod.spec.containers else ""
    return next(failed, pod.metadata.annotations.get(DEFAULT_CONTAINER) or first)


def merge_tasks(recorded: Sequence[PodTask], seen: Sequence[PodTask]) -> list[PodTask]:
    """Recorded and existing pods, each once. A recorded end is kept if the existing pod shows none."""
    found = {(task.generation, task.rank): task for task in recorded}
    for task in seen:
        known = found.get((task.generation, task.rank))
        if known is None or not known.ended or task.ended:
            found[task.generation, task.rank] = task
    return [found[key] for key in sorted(found)]


def pod_task(state: JobState, pod: Pod, role: str, replica: int) -> PodTask:
    """The task of a bound pod."""
    exit = pod_ends.observe(pod, 0, 0).exit if pod.status.has_ended else None
    return PodTask(
        job_id=state.id,
        generation=generation_of(pod) or state.status.generation,
        rank=_before(state, role) + replica,
        role=role,
        replica=replica,
        node=pod.spec.node_name,
        pod=pod.metadata.name,
        code=exit.code if exit else None,
        signal=exit.signal if exit else None,
        detail=exit.detail if exit else "",
    )


def _before(state: JobState, role: str) -> int:
    """Number of members in the roles of its step before this one."""
    placed = state.status.placement.nodes if state.status.placement else {}
    step = next((each.step for each in state.job.roles if each.name == role), 0)
    earlier = takewhile(lambda each: each.name != role, job_at_step(state.job, step).roles)
    return sum(len(placed.get(each.name, ())) or each.replicas for each in earlier)
