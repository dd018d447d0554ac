"""Settings of an installation for the Kubernetes backend."""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.backends.kubernetes.pods.pod_deletion import EVICTION_TIMEOUT_S
from windlass.backends.members import SETTLING_MS
from windlass.jobs.kubernetes.settings import Settings


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Settings for agents in pods."""

    secret_key: bytes = b""
    """Key from which the secrets of gangs are derived, and by which decisions on external gangs are signed; every
    replica of the operator has the same."""
    any_source: bool = False
    """Whether an agent may connect from another address than its pod's: behind address translation, a proxy, a mesh."""


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """Settings of the Kubernetes backend. Times in milliseconds, except in names with `_s`."""

    kinds: Settings = field(default_factory=Settings)
    agents: AgentSettings = field(default_factory=AgentSettings)
    image_pull_timeout: int = 300_000
    """Time for which image pulls may fail before the pod counts as one that cannot start."""
    eviction_timeout_s: float = EVICTION_TIMEOUT_S
    """Seconds for which a disruption budget may forbid an eviction before a preemption is given up."""
    failure_settling: int = SETTLING_MS
    """Time for which the first failure of a run waits for earlier ones (`MemberTracker`)."""
    max_requests: int = 64
    """Requests in flight that create, bind or delete pods. Measured: more than 32 to 64 bind no faster."""
    left_kinds: frozenset[str] = frozenset()
    """Kinds that the administrator leaves to operators that are not found by themselves."""
    only_labelled: bool = False
    """Whether jobs run only in namespaces with the label `windlass.dev/managed: "true"`."""
    runs_mpijobs_v1: bool = True
    """Whether the operator's account has the rights that MPIJobs of version v1 need."""
    wait_settling: int = 1_000
    """Time for which a job waits for an object before its owner is told: the watches of both may be apart."""
    cluster_settling: int = 20
    """Time for which changes of nodes are collected before they are reported to the controller."""
