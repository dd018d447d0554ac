"""Resolves a parsed job in its cluster: additional needs of its pods, and names of classes, claims and levels.

The resolved job is for the core alone: pods are made from the manifest, which does not contain the resolution.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from windlass.backends.kubernetes.client.object_reference import referenced_job_id
from windlass.backends.kubernetes.client.objects import Pod, PriorityClass, StringMap
from windlass.backends.kubernetes.cluster.admission_guard import AdmissionGuard, namespace_user
from windlass.backends.kubernetes.cluster.pods import pod_usage
from windlass.backends.kubernetes.cluster.queue_access import MAX_PRIORITY, NamespaceQueues, is_reserved_class
from windlass.backends.kubernetes.cluster.topology_levels import Level, level_named
from windlass.backends.kubernetes.cluster.volumes import (
    StorageObjects,
    VolumeConstraints,
    claims_of,
    intersect_terms,
    volume_constraints,
)
from windlass.core.model.job import DEFAULT_QUEUE, Job, Role
from windlass.core.model.policy import MAX_GRACE_MS
from windlass.core.model.queue import Queue
from windlass.core.model.resources import GPU, GPU_KIND, PODS, add
from windlass.jobs.kubernetes.kinds.registry import exclusions
from windlass.jobs.kubernetes.manifest_reader import ManifestError, ManifestField
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.pods.anti_affinity import Exclusions
from windlass.jobs.kubernetes.pods.pod_requests import core_name, is_gpu

_ONE_NODE = ("ReadWriteOnce", "ReadWriteOncePod")


@dataclass(frozen=True, slots=True)
class NamespaceLookups:
    """The objects that names in a job refer to."""

    namespace_labels: StringMap | None = field(default_factory=dict)
    """None while the namespace is not listed."""
    priorities: Mapping[str, PriorityClass] = field(default_factory=dict)
    stock: StorageObjects = field(default_factory=StorageObjects)
    levels: tuple[Level, ...] = ()
    """Topology levels of the nodes (`ClusterView.view`)."""
    unmanaged: str = ""
    """Why nothing runs in the namespace; "" if jobs do."""
    queues: Mapping[str, Queue] = field(default_factory=dict)
    guard: AdmissionGuard = field(default_factory=AdmissionGuard)
    max_grace: int = MAX_GRACE_MS
    """Longest grace of a job, in ms."""

    def queues_of(self, namespace: str) -> NamespaceQueues:
        """Returns the queues for jobs of the namespace, of which this is the view."""
        return NamespaceQueues(namespace, self.namespace_labels, self.queues)


@dataclass(frozen=True, slots=True)
class ResolvedJob:
    """The job for the core, and further facts for the backend."""

    job: Job
    to_choose: tuple[str, ...] = ()
    """Claims of its namespace to annotate with the node of the first pod that mounts them, before that pod is bound."""
    trouble: str = ""
    """The reason for which it cannot be scheduled until something else in the cluster changes; "" for none."""
    is_early: bool = False
    """Whether `trouble` is that a watch has yet to report what exists already: it passes by itself."""
    warnings: tuple[str, ...] = ()
    """Settings without effect, or with another effect than intended: those of the manifest, and more."""
    denial: str = ""
    """Why `job` has another queue or a lower priority than its owner asks for; "" if it has not."""


def resolve_job(parsed: ParsedJob, around: NamespaceLookups, pods: Iterable[Pod] = ()) -> ResolvedJob:
    """Returns the job of one of our kinds for the core. `pods`: those that it has already."""
    job, troubles = _allowed(parsed, around, pods)
    found = ResolvedJob(job, warnings=parsed.warnings, denial=troubles[1])
    try:
        return _fitted(parsed, around, found, troubles)
    except ManifestError as error:  # a template from which no pod can be made
        return replace(found, trouble=str(error.fault))


def unresolved_job(parsed: ParsedJob, trouble: str) -> ResolvedJob:
    """Returns a job whose resolution has failed, with nothing of what its owner asks of the cluster."""
    priority, user = min(parsed.job.priority, MAX_PRIORITY), namespace_user(parsed.namespace)
    grace = min(parsed.job.grace, MAX_GRACE_MS)
    job = replace(parsed.job, queue=DEFAULT_QUEUE, priority=priority, user=user, grace=grace, hold=trouble)
    return ResolvedJob(_with_namespace(job, parsed.namespace), trouble=trouble)


def requests_of(pod: Pod) -> dict[str, int]:
    """Returns the requests of an existing pod, in the core's names."""
    asked: dict[str, int] = {}
    for name, count in pod_usage(pod).items():
        asked = add(asked, {core_name(name): count})
    return asked


def with_level_name(job: Job, levels: Sequence[Level]) -> Job:
    """Returns the job with the topology level's name in place of a node label."""
    if job.topology is None:
        return job
    return replace(job, topology=replace(job.topology, level=level_named(levels, job.topology.level)))


def _placed_by(role: Role, kind: str) -> Role:
    """Returns the role restricted to nodes with the requested kind of GPUs."""
    if not kind or not role.resources.get(GPU):
        return role
    return replace(role, node_selector={**role.node_selector, GPU_KIND: kind})


def has_class_priority(parsed: ParsedJob) -> bool:
    """Tells whether a job's priority is that of a PriorityClass: of its own, or of the default one if it names none."""
    is_numbered = bool(parsed.job.priority) or parsed.spec["priority"].value is not None
    return bool(parsed.priority_class) or not is_numbered


def priority_of(name: str, known: Mapping[str, PriorityClass]) -> tuple[int | None, str]:
    """Returns the value of a priority class, and an error. Without a name: the default class, None if there is none."""
    if name:
        found = known.get(name)
        return (found.value, "") if found else (None, f"there is no PriorityClass {name}; create it, or name another")
    return next((each.value for each in known.values() if each.global_default), None), ""


@dataclass(frozen=True, slots=True)
class _Wishes:
    """Placement constraints in the template of one role."""

    claims: tuple[str, ...]
    store: VolumeConstraints
    kinds: tuple[str, ...]
    """Requested kinds of GPUs."""
    apart: tuple[str, ...]


def _class_value(parsed: ParsedJob, around: NamespaceLookups, pods: Iterable[Pod]) -> tuple[int | None, str]:
    """Returns the value of the job's priority class (None: its number counts), and an error.

    If the class no longer exists, the value is that of its pods with this class, which only the API server sets.
    """
    name = parsed.priority_class
    if not has_class_priority(parsed):
        return None, ""
    value, unknown = priority_of(name, around.priorities)
    if unknown:
        value = next((pod.spec.priority for pod in pods if pod.spec.priority_class_name == name), None)
    return value, unknown


def _allowed(parsed: ParsedJob, around: NamespaceLookups, pods: Iterable[Pod]) -> tuple[Job, tuple[str, str]]:
    """Returns the job with its queue, priority and user, and two troubles: an unknown class, and a denial."""
    queues = around.queues_of(parsed.namespace)
    queue, closed = queues.allowed_queue(parsed.run_policy.queue)
    number, above = queues.allowed_priority(queue, parsed.job.priority)
    of_class, unknown = _class_value(parsed, around, pods)
    if is_reserved_class(parsed.priority_class, parsed.namespace):
        of_class, above = None, f"the PriorityClass {parsed.priority_class} is for Kubernetes' own pods; name another"
    priority, denial = (number, closed or above) if of_class is None else (of_class, closed)
    user = around.guard.user_of(parsed.manifest["metadata"]) or namespace_user(parsed.namespace)
    grace = min(parsed.job.grace, around.max_grace)
    job = replace(parsed.job, queue=queue, priority=priority, user=user, grace=grace)
    return _with_namespace(job, parsed.namespace), (unknown, denial)


def _with_namespace(job: Job, namespace: str) -> Job:
    """Returns the job with its namespace in the ids of its array and of the jobs that it waits for."""
    after = tuple(replace(each, job_id=referenced_job_id(each.job_id, namespace)) for each in job.after)
    array = job.array and replace(job.array, array_id=f"{namespace}/{job.array.array_id}")
    return replace(job, after=after, array=array)


def _fitted(parsed: ParsedJob, around: NamespaceLookups, allowed: ResolvedJob, before: tuple[str, str]) -> ResolvedJob:
    """Resolves the rest of a job. `before`: troubles so far. Raises ManifestError."""
    apart = exclusions(parsed)
    wishes = {each.role: _wishes(each.role, each.template, parsed, around, apart) for each in parsed.replicas}
    pairs = [(role, wishes[role.name]) for role in parsed.job.roles]
    job = replace(allowed.job, roles=tuple(_role(role, wish) for role, wish in pairs))
    troubles = [*before, *(trouble for role, wish in pairs for trouble in _troubles(role, wish))]
    return replace(
        allowed,
        job=with_level_name(job, around.levels),
        to_choose=tuple(dict.fromkeys(name for _, wish in pairs for name in wish.store.to_choose)),
        trouble=next(filter(None, troubles), ""),
        warnings=(*parsed.warnings, *_warnings(parsed, around, pairs)),
    )


def _wishes(
    role: str, template: Mapping[str, object], parsed: ParsedJob, around: NamespaceLookups, apart: Exclusions
) -> _Wishes:
    spec = ManifestField(template, (role,))["spec"]
    claims = claims_of(spec)
    return _Wishes(
        claims,
        volume_constraints(claims, parsed.namespace, around.stock, parsed.claims),
        _kinds_of_gpu(spec),
        apart.resources.get(role, ()),
    )


def _kinds_of_gpu(spec: ManifestField) -> tuple[str, ...]:
    """Returns the resources by which GPUs are requested, usually one."""
    containers = [*spec["containers"].items(), *spec["initContainers"].items()]
    named = (
        name for each in containers for part in ("limits", "requests") for name in each["resources"][part].mapping()
    )
    return tuple(sorted({name for name in named if is_gpu(name)}))


def _role(role: Role, wish: _Wishes) -> Role:
    """Returns the role with the constraints of its pods."""
    needs = {**role.resources, PODS: 1, **dict.fromkeys(wish.apart, 1)}
    try:
        affinity = intersect_terms(role.affinity, wish.store.terms)
    except ValueError:  # reported by `_troubles`
        affinity = role.affinity
    return _placed_by(replace(role, resources=needs, affinity=affinity), next(iter(wish.kinds), ""))


def _troubles(role: Role, wish: _Wishes) -> Iterator[str]:
    yield wish.store.trouble
    if len(wish.kinds) > 1:
        yield f"{role.name}: asks for {' and '.join(wish.kinds)} in one pod; ask for one kind, or use two roles"
    try:
        intersect_terms(role.affinity, wish.store.terms)
    except ValueError as error:
        yield f"{role.name}: {error}"


def _warnings(parsed: ParsedJob, around: NamespaceLookups, pairs: Sequence[tuple[Role, _Wishes]]) -> Iterator[str]:
    """Yields settings that may not have the intended effect in this cluster."""
    known = around.priorities.get(parsed.priority_class)
    if known and known.preemption_policy == "Never":
        yield f"priorityClassName {parsed.priority_class}: preemptionPolicy Never is ignored by the scheduler"
    for role, wish in pairs:
        for name in wish.claims if role.replicas > 1 else ():
            claim = around.stock.claims.get((parsed.namespace, name))
            if claim and claim.spec.access_modes and set(claim.spec.access_modes) <= set(_ONE_NODE):
                yield f"{role.name}: {role.replicas} pods mount {name}, and one node at a time may (ReadWriteOnce)"
