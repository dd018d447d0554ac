"""Assembles the gangs that the core places from the pods of a group: those that must start together, and each late pod.

All counts are read from the pods as they are, so a scheduler that takes over assembles the same gangs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from windlass.core.model.job import DEFAULT_QUEUE, Job, Launcher, RestartPolicy
from windlass.core.model.resources import Resources
from windlass.jobs.kubernetes.bounded_integers import MAX_INT32, natural_key, parse_integer
from windlass.jobs.kubernetes.external.membership import GangKey
from windlass.jobs.kubernetes.external.observed_pod import Pod
from windlass.jobs.kubernetes.external.pod_demands import GroupDemands, demands_of_group, role_name
from windlass.jobs.kubernetes.external.roles import Terms, own_terms, roles_of
from windlass.jobs.kubernetes.gang_dialects import Dialect
from windlass.jobs.kubernetes.labels import QUEUE
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestError

P = TypeVar("P", bound=Pod)
_INDEX = "batch.kubernetes.io/job-completion-index"
_DEFAULT_GRACE_S = 30
"""Kubernetes' default of terminationGracePeriodSeconds."""
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class AssembledGang(Generic[P]):
    """Pods that are placed together."""

    name: str
    """Name within the namespace: the group's; for late pods the group's and the first pod's."""
    job: Job
    pods: tuple[P, ...]
    """In the order of the job's members."""
    priority_class: str = ""
    """Name of the priority class in its PodGroup; the backend resolves it."""
    queue: str = ""
    """The queue that its pods or its PodGroup name; the backend decides whether it may use that."""
    is_queue_of_pods: bool = True
    """Whether every pod names that queue. Admission checks the right to use a queue on pods only."""


@dataclass(frozen=True, slots=True)
class AssembledGangs(Generic[P]):
    """Gangs of one group that are to be placed."""

    gangs: tuple[AssembledGang[P], ...] = ()
    minimum: int = 0
    missing: str = ""
    """The reason why the existing pods must wait; empty if they need not."""


def assemble_gangs(
    member: GangKey,
    pods: Sequence[P],
    group: Manifest | None,
    takes: Callable[[P], Resources],
    known: Collection[str] = (),
    terms: Callable[[P], Terms] = own_terms,
) -> AssembledGangs[P]:
    """The gangs among the unbound pods of one group.

    `pods`: all of the group, ended ones as well. `group`: see `membership.object_of`. `takes`: the requests of a pod.
    `known`: uids of pods that belong to a gang of the core already, placed or not. `terms`: nodes a pod may run on, if
    more than its own affinity restricts them, such as volumes; it may raise ManifestError.
    """
    try:
        needed = demands_of_group(member, group, pods)
    except ManifestError as error:
        return AssembledGangs(missing=str(error.fault))
    if isinstance(needed, str):
        return AssembledGangs(missing=needed)
    # 1. Pods still to be placed, and those that count as placed: bound once, or in a gang already.
    waiting = [pod for pod in pods if _waits(pod, known)]
    placed = sum(_counts(pod) for pod in pods) - len(waiting)
    together = max(needed.minimum - placed, 0)
    # 2. As many as are still required start together, or wait for the others.
    if not waiting:
        return AssembledGangs(minimum=needed.minimum)
    if len(waiting) < together:
        return AssembledGangs((), needed.minimum, f"{placed + len(waiting)} of {needed.minimum} pods exist")
    # 3. Each later pod is a gang of its own.
    waiting.sort(key=_rank)
    parts = [waiting[:together]] if together else []
    parts += [[pod] for pod in waiting[together:]]
    try:
        gangs = tuple(
            gang_of(_name(member, part, first=not placed and not at), part, needed, takes, terms)
            for at, part in enumerate(parts)
        )
    except ManifestError as error:
        return AssembledGangs((), needed.minimum, str(error.fault))
    return AssembledGangs(gangs, needed.minimum)


def _waits(pod: Pod, known: Collection[str]) -> bool:
    return _counts(pod) and not pod.spec.node_name and pod.metadata.uid not in known and pod.status.phase not in _ENDED


def _counts(pod: Pod) -> bool:
    """Tells whether the pod counts towards the required number; a pod that succeeded has counted."""
    if pod.status.phase in _ENDED:
        return pod.status.phase == "Succeeded"
    return pod.metadata.deletion_timestamp is None


def _rank(pod: Pod) -> tuple[str, int, list[tuple[int, str]]]:
    """Sorts by role in the gang, by index, else by name with its numbers as numbers."""
    index = parse_integer(pod.metadata.labels.get(_INDEX, ""))
    return role_name(pod), -1 if index is None else index, natural_key(pod.metadata.name)


def _name(member: GangKey, part: Sequence[Pod], *, first: bool) -> str:
    if first or member.dialect is Dialect.ALONE:
        return member.name
    return f"{member.name}/{part[0].metadata.name}"


def gang_of(
    name: str, pods: Sequence[P], needed: GroupDemands, takes: Callable[[P], Resources], terms: Callable[[P], Terms]
) -> AssembledGang[P]:
    """These pods as one gang, on whatever nodes. See `assemble_gangs`. Raises ManifestError."""
    roles, ordered = roles_of(pods, takes, terms)
    queue = next((queue for pod in pods if (queue := pod.metadata.labels.get(QUEUE))), needed.queue)
    # the API server resolves the priority of pods from PriorityClasses, and refuses any other number
    job = Job(
        name=name,
        roles=roles,
        launcher=Launcher.TORCHRUN,
        queue=queue or DEFAULT_QUEUE,
        priority=min(pod.spec.priority for pod in pods),
        grace=1000 * max(_grace(pod) for pod in pods),
        restart=RestartPolicy(user_limit=0),
        start_timeout=None,  # the owner of slow pods replaces them
        topology=needed.topology,
    )
    is_queue_of_pods = all(pod.metadata.labels.get(QUEUE, "") == queue for pod in pods)
    return AssembledGang(name, job, ordered, needed.priority_class, queue, is_queue_of_pods)


def _grace(pod: Pod) -> int:
    seconds = pod.spec.termination_grace_period_seconds
    return _DEFAULT_GRACE_S if seconds is None else max(0, min(seconds, MAX_INT32))
