"""Finds the gang that a pod belongs to, by dialect: coscheduling, Volcano, native PodGroups, or our labels.

Sources: sigs.k8s.io/scheduler-plugins v0.33, apis/scheduling/v1alpha1 (coscheduling; its older label is of v0.2x);
volcano.sh/apis v1.13, scheduling/v1beta1/labels.go; k8s.io/api v0.36, core/v1 PodSchedulingGroup; sigs.k8s.io/jobset
v0.10, api/jobset/v1alpha2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from windlass.jobs.kubernetes.external.observed_pod import OwnerReference, Pod
from windlass.jobs.kubernetes.gang_dialects import OBJECT_KINDS, Dialect, ObjectKind
from windlass.jobs.kubernetes.labels import COSCHEDULING_LABEL, GANG, GANG_SIZE, GENERATION, ROLE, VOLCANO_GROUP


class GangKey(NamedTuple):
    """Key of an external gang: namespace, name and dialect."""

    namespace: str
    name: str
    dialect: Dialect
    part: str = ""
    """Distinguishes gangs of one name: a Job's uid, or the number of restarts of a JobSet."""


_OLD_COSCHEDULING = "pod-group.scheduling.sigs.k8s.io"
_VOLCANO = (VOLCANO_GROUP, "scheduling.volcano.sh/group-name")
_JOB_SET = "jobset.sigs.k8s.io/"
REPLICATED_JOB = f"{_JOB_SET}replicatedjob-name"


def membership(pod: Pod) -> GangKey | None:
    """The gang of a pod, of one pod if nothing else says; None for members of jobs of our kinds."""
    about = pod.metadata
    if GENERATION in about.labels or ROLE in about.labels:
        return None
    for dialect, name in _named(pod):
        if name:
            return GangKey(about.namespace, name, dialect)
    if label := about.labels.get(GANG):
        return _labelled(pod, label)
    return GangKey(about.namespace, about.name, Dialect.ALONE)


def _named(pod: Pod) -> Iterator[tuple[Dialect, str]]:
    """The name of the pod's gang in each dialect of PodGroups that names one."""
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    group = pod.spec.scheduling_group
    yield Dialect.NATIVE, group.pod_group_name if group is not None else ""
    yield Dialect.COSCHEDULING, labels.get(COSCHEDULING_LABEL, "")
    yield Dialect.OLD_COSCHEDULING, labels.get(_OLD_COSCHEDULING, "")
    for key in _VOLCANO:
        yield Dialect.VOLCANO, annotations.get(key) or labels.get(key, "")


def object_of(member: GangKey) -> ObjectKind | None:
    """The kind of the object, of the membership's namespace and name, that has the gang's size; None without one."""
    return OBJECT_KINDS.get(member.dialect)


def _labelled(pod: Pod, name: str) -> GangKey:
    """The gang by our own label: the pods of one JobSet or Job, unless an annotation gives their number."""
    about = pod.metadata
    if GANG_SIZE not in about.annotations:
        if job_set := about.labels.get(f"{_JOB_SET}jobset-name"):
            attempt = about.labels.get(f"{_JOB_SET}restart-attempt", "0")
            return GangKey(about.namespace, job_set, Dialect.JOB_SET, attempt)
        if (owner := controller(pod)) is not None and owner.kind == "Job":
            return GangKey(about.namespace, owner.name, Dialect.JOB, owner.uid)
    return GangKey(about.namespace, name, Dialect.GANG_SIZE)


def controller(pod: Pod) -> OwnerReference | None:
    """The owner that replaces this pod."""
    return next((owner for owner in pod.metadata.owner_references if owner.controller), None)
