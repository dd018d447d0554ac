"""Derives the roles of a gang from its pods: pods with the same requests and allowed nodes are replicas of one role."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from windlass.core.model.job import Match, Role, Toleration
from windlass.core.model.resources import Resources
from windlass.jobs.kubernetes.external.observed_pod import Pod
from windlass.jobs.kubernetes.external.pod_demands import role_name
from windlass.jobs.kubernetes.manifest_reader import ManifestField
from windlass.jobs.kubernetes.pods.pod_placement import affinity_of

P = TypeVar("P", bound=Pod)
Terms: TypeAlias = tuple[tuple[Match, ...], ...]
"""Any of these, all conditions of it; none: every node."""


def own_terms(pod: Pod) -> Terms:
    """The terms of the pod's node affinity. Raises ManifestError."""
    return (
        affinity_of(ManifestField({"affinity": pod.spec.affinity}, (pod.metadata.name, "spec")))
        if pod.spec.affinity
        else ()
    )


@dataclass(frozen=True, slots=True)
class _Kind:
    """The common properties of equal pods. All parts are hashable."""

    called: str
    takes: tuple[tuple[str, int], ...]
    selector: tuple[tuple[str, str], ...]
    tolerations: tuple[Toleration, ...]
    terms: Terms


def roles_of(
    pods: Sequence[P], takes: Callable[[P], Resources], terms: Callable[[P], Terms]
) -> tuple[tuple[Role, ...], tuple[P, ...]]:
    """The roles, and the pods in the order of their members. Raises ManifestError."""
    kinds: dict[_Kind, list[P]] = {}
    for pod in pods:
        kinds.setdefault(_kind(pod, takes(pod), terms(pod)), []).append(pod)
    names = _names([kind.called for kind in kinds])
    roles = tuple(_role(name, kind, len(alike)) for name, (kind, alike) in zip(names, kinds.items(), strict=True))
    return roles, tuple(pod for alike in kinds.values() for pod in alike)


def _kind(pod: Pod, takes: Mapping[str, int], terms: Terms) -> _Kind:
    spec = pod.spec
    tolerations = tuple(Toleration(t.key, t.operator or "Equal", t.value, t.effect) for t in spec.tolerations)
    return _Kind(
        role_name(pod), tuple(sorted(takes.items())), tuple(sorted(spec.node_selector.items())), tolerations, terms
    )


def _names(called: Sequence[str]) -> list[str]:
    """One role name for each kind of pod; numbered where names repeat."""
    return [name if called.count(name) == 1 else f"{name}-{called[:at].count(name)}" for at, name in enumerate(called)]


def _role(name: str, kind: _Kind, replicas: int) -> Role:
    return Role(
        name=name,
        replicas=replicas,
        resources=dict(kind.takes),
        node_selector=dict(kind.selector),
        tolerations=kind.tolerations,
        affinity=kind.terms,
    )
