"""A validated manifest, its `core.model.job.Job` and its pod templates.

Made by the readers of `kinds`; `pods` and `status` work on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from windlass.core.model.job import Job, Match
from windlass.jobs.kubernetes.foreign_schedulers import JobScheduler, choose_scheduler
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestField
from windlass.jobs.kubernetes.settings import Settings
from windlass.jobs.kubernetes.train_runtimes import RuntimeSnapshot

Selector: TypeAlias = tuple[Match, ...]
"""Conditions on a pod's labels, all of them."""
LAUNCHER, WORKER = "Launcher", "Worker"
"""Replica types: LAUNCHER of MPIJobs; WORKER of most kinds."""


@dataclass(frozen=True, slots=True)
class Replicas:
    """Equal pods: one entry of a job's replica specs, defaults filled in."""

    type: str
    """As the kind writes it: "Master"."""
    type_as_written: str
    """As this manifest writes it; most kinds take "master" as well."""
    count: int
    restart_policy: str
    """Always, OnFailure, Never or ExitCode."""
    template: Mapping[str, Any]
    """As written, but for the default port."""
    name_infix: str = ""
    """The part of a pod's name between the job's name and the index, if it is not the role."""
    step: int = 0
    """Step of the job to which they belong (`core.model.steps`)."""

    @property
    def role(self) -> str:
        """Its name in labels, in pods' names, and in the core."""
        return self.type.lower()


@dataclass(frozen=True, slots=True)
class RunPolicy:
    """`spec.runPolicy`, or the fields of other kinds that mean the same; defaults filled in."""

    clean_pod_policy: str
    """All, Running or None."""
    ttl_ms: int | None
    """ttlSecondsAfterFinished."""
    deadline_ms: int | None
    """activeDeadlineSeconds."""
    backoff_limit: int | None
    suspend: bool
    managed_by: str
    """Empty: none is named."""
    queue: str
    min_available: int | None
    priority_class: str
    gang_restart: bool
    """One lost pod restarts all: `restartMode: gang`, or the annotation `windlass.dev/restart-mode: gang`."""
    ttl_keeps_job: bool = False
    """Only the pods are deleted after the time to live; the job's object stays."""


@dataclass(frozen=True, slots=True)
class ParsedJob:
    """One manifest, read without a fault, and the core's job made from it."""

    manifest: Manifest
    api_version: str
    kind: str
    name: str
    namespace: str
    uid: str
    """Empty: the object was never in a cluster."""
    job: Job
    settings: Settings
    replicas: tuple[Replicas, ...]
    """In the kind's order, by which ranks are counted."""
    run_policy: RunPolicy
    priority_class: str = ""
    """Of the gang, by name: the backend looks up its value in the cluster."""
    anti_affinity: Mapping[str, tuple[Selector, ...]] = field(default_factory=dict)
    """By role: the pods that its pods may not share a node with (`pods.anti_affinity.anti_affinity_selectors`)."""
    warnings: tuple[str, ...] = ()
    """Warnings for fields without effect, one line each."""
    runtime: RuntimeSnapshot | None = None
    """Of a TrainJob: the runtime that it is created from."""
    claims: Mapping[str, str] = field(default_factory=dict)
    """Volume claims that the job makes for its pods: their names, and their storage classes ("": the default class)."""

    @property
    def spec(self) -> ManifestField:
        """The fields of the kind."""
        return ManifestField(self.manifest)["spec"]

    @property
    def scheduler(self) -> JobScheduler:
        """The scheduler of its pods."""
        named = [(each.template.get("spec") or {}).get("schedulerName") or "" for each in self.replicas]
        return choose_scheduler(named, self.settings.foreign_schedulers)

    @property
    def pod_count(self) -> int:
        """Number of pods, over all replica types."""
        return sum(each.count for each in self.replicas)

    def replicas_of(self, replica_type: str) -> Replicas | None:
        """The replicas of a type, if the job has any."""
        return next((each for each in self.replicas if each.type == replica_type), None)


def with_sizes(parsed: ParsedJob, sizes: Mapping[str, int]) -> ParsedJob:
    """The job with another number of replicas in some roles, as an elastic gang has."""
    if all(sizes.get(each.role, each.count) == each.count for each in parsed.replicas):
        return parsed
    replicas = tuple(replace(each, count=sizes.get(each.role, each.count)) for each in parsed.replicas)
    roles = tuple(replace(role, replicas=sizes.get(role.name, role.replicas)) for role in parsed.job.roles)
    return replace(parsed, replicas=replicas, job=replace(parsed.job, roles=roles))


@dataclass(frozen=True, slots=True)
class Member:
    """One pod to create. Parts that it shares with its template must not be changed."""

    name: str
    role: str
    index: int
    """Within its role."""
    pod: Manifest
