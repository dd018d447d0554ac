"""Reads what the pods of a group request together: how many must start at once, queue, priority and topology.

Sources: as of `membership`; k8s.io/api v0.36, batch/v1 (parallelism, completions) and scheduling/v1alpha2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.core.model.job import TopologyRequest
from windlass.jobs.kubernetes.bounded_integers import MAX_GANG_SIZE, parse_integer
from windlass.jobs.kubernetes.external.membership import REPLICATED_JOB, GangKey, object_of
from windlass.jobs.kubernetes.external.observed_pod import Pod
from windlass.jobs.kubernetes.gang_dialects import Dialect
from windlass.jobs.kubernetes.labels import GANG, GANG_SIZE
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestField

_TASK = "volcano.sh/task-spec"


@dataclass(frozen=True, slots=True)
class GroupDemands:
    """Demands of one gang."""

    minimum: int
    """Pods that start together, or none does."""
    queue: str = ""
    priority_class: str = ""
    topology: TopologyRequest | None = None


def demands_of_group(member: GangKey, group: Manifest | None, pods: Sequence[Pod]) -> GroupDemands | str:
    """The requests in the gang's object, or why they are unknown. Raises ManifestError if the object is malformed."""
    if member.dialect is Dialect.ALONE:
        return GroupDemands(1)
    if member.dialect is Dialect.GANG_SIZE:
        return _by_annotation(pods)
    if group is None:
        kind = object_of(member)
        return f"{kind.kind if kind else 'object'} {member.namespace}/{member.name} does not exist"
    return _of_object(member.dialect, ManifestField(group)["spec"], pods)


def _of_object(dialect: Dialect, spec: ManifestField, pods: Sequence[Pod]) -> GroupDemands:
    match dialect:
        case Dialect.NATIVE:
            return _native(spec)
        case Dialect.JOB:
            return GroupDemands(_of_job(spec))
        case Dialect.JOB_SET:
            return GroupDemands(_of_job_set(spec, pods))
    return GroupDemands(
        spec["minMember"].integer(0, MAX_GANG_SIZE) or 1, spec["queue"].text(), spec["priorityClassName"].text()
    )


def role_name(pod: Pod) -> str:
    """The role of the pod in its gang, from its labels."""
    labels = pod.metadata.labels
    return labels.get(REPLICATED_JOB) or labels.get(_TASK) or "pods"


def _by_annotation(pods: Sequence[Pod]) -> GroupDemands | str:
    sizes = {pod.metadata.annotations.get(GANG_SIZE, "") for pod in pods}
    if "" in sizes:
        return f"the number of the gang's pods is unknown; give each the annotation {GANG_SIZE} beside the label {GANG}"
    size = parse_integer(sizes.pop(), 1, MAX_GANG_SIZE) if len(sizes) == 1 else None
    if size is None:
        return (
            f"the annotation {GANG_SIZE} must be one and the same number from 1 to {MAX_GANG_SIZE} "
            "on all pods of the gang"
        )
    return GroupDemands(size)


def _native(spec: ManifestField) -> GroupDemands:
    """Under the policy basic every pod is a gang of its own."""
    least = spec["schedulingPolicy"]["gang"]["minCount"].integer(1, MAX_GANG_SIZE) or 1
    keys = [constraint["key"].text() for constraint in spec["schedulingConstraints"]["topology"].items()]
    topology = TopologyRequest(keys[0]) if keys and keys[0] else None
    return GroupDemands(least, "", spec["priorityClassName"].text(), topology)


def _of_job(spec: ManifestField) -> int:
    """The pods of a batch Job that run at a time."""
    parallelism, completions = spec["parallelism"].integer(0, MAX_GANG_SIZE), spec["completions"].integer()
    parallelism = 1 if parallelism is None else parallelism
    return parallelism if completions is None else min(parallelism, completions)


def _of_job_set(spec: ManifestField, pods: Sequence[Pod]) -> int:
    """The pods of all jobs of a JobSet, or of those that have begun where one waits for another."""
    jobs = spec["replicatedJobs"].items()
    in_order = spec["startupPolicy"]["startupPolicyOrder"].text() == "InOrder"
    if in_order or any(job["dependsOn"].items() for job in jobs):
        begun = {pod.metadata.labels.get(REPLICATED_JOB) for pod in pods}
        jobs = [job for job in jobs if job["name"].text() in begun]
    together = sum(_replicas(job) * _of_job(job["template"]["spec"]) for job in jobs)
    if together > MAX_GANG_SIZE:
        spec["replicatedJobs"].refuse(f"has {together} pods together; at most {MAX_GANG_SIZE} can start together")
    return together


def _replicas(job: ManifestField) -> int:
    written = job["replicas"].integer()
    return 1 if written is None else written
