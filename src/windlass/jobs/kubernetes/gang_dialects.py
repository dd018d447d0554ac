"""Conventions that make pods one gang, and the kinds of objects that describe a gang in each of them.

Sources: sigs.k8s.io/scheduler-plugins v0.33, apis/scheduling/v1alpha1 (coscheduling; its older group is of v0.2x);
volcano.sh/apis v1.13, scheduling/v1beta1; k8s.io/api v0.36, scheduling/v1alpha2; sigs.k8s.io/jobset v0.10.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Dialect(StrEnum):
    """A convention that makes pods one gang."""

    COSCHEDULING = "coscheduling"
    OLD_COSCHEDULING = "old-coscheduling"
    VOLCANO = "volcano"
    NATIVE = "native"
    JOB = "job"
    """Our label, on the pods of one batch Job."""
    JOB_SET = "jobset"
    """Our label, on the pods of one JobSet."""
    GANG_SIZE = "gang-size"
    """Our label, with an annotation for the number of pods."""
    ALONE = "alone"


class ObjectKind(NamedTuple):
    """A kind of object, as a manifest names it."""

    api_version: str
    kind: str


POD_GROUPS = (Dialect.COSCHEDULING, Dialect.OLD_COSCHEDULING, Dialect.VOLCANO, Dialect.NATIVE)
OBJECT_KINDS = {
    Dialect.COSCHEDULING: ObjectKind("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
    Dialect.OLD_COSCHEDULING: ObjectKind("scheduling.sigs.k8s.io/v1alpha1", "PodGroup"),
    Dialect.VOLCANO: ObjectKind("scheduling.volcano.sh/v1beta1", "PodGroup"),
    Dialect.NATIVE: ObjectKind("scheduling.k8s.io/v1alpha2", "PodGroup"),
    Dialect.JOB: ObjectKind("batch/v1", "Job"),
    Dialect.JOB_SET: ObjectKind("jobset.x-k8s.io/v1alpha2", "JobSet"),
}
