"""Pods of one job that may not be on one node: by a resource of the job's own, of which each node has one.

That is exact for anti-affinity of a job's pods among themselves over the host name, which is what people write to get
one pod on each node. Anti-affinity to other pods, or over wider domains, is not looked at.
Source: Kubernetes, the scheduler's InterPodAffinity plugin.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from windlass.jobs.kubernetes import kinds
from windlass.jobs.kubernetes.parsed import Parsed
from windlass.jobs.kubernetes.reading import Manifest
from windlass.worlds.kubernetes.cluster.levels import HOSTNAME

APART = "apart/"
"""Begins the resource that keeps a job's pods from sharing a node."""
_FURTHER = ("namespaces", "namespaceSelector", "matchLabelKeys", "mismatchLabelKeys")


class Separated(NamedTuple):
    """What a job's anti-affinity comes to."""

    resources: Mapping[str, str]
    """By role that has it: the resource that its pods ask for. Roles that may not meet ask for the same."""
    heeded: frozenset[str]
    """Roles of whose anti-affinity nothing else is left."""


def separated(parsed: Parsed) -> Separated:
    """Which pods of a job may not share a node."""
    wishes = {each.role: _required(each.template.get("spec") or {}) for each in parsed.replicas}
    if not any(wishes.values()):
        return Separated({}, frozenset())
    pods = {member.role: member.pod for member in reversed(kinds.members(parsed, 1))}
    avoids = {role: set(_avoided(pod, pods)) for role, pod in pods.items()}
    heeded = {role for role, terms in wishes.items() if all(_within(term, pods) for term in terms)}
    apart = {(one, other) for one in pods for other in pods if other in avoids[one] or one in avoids[other]}
    return Separated(_resources(parsed, apart), frozenset(heeded))


def _resources(parsed: Parsed, apart: Collection[tuple[str, str]]) -> dict[str, str]:
    """One for all, if none of those that avoid any may meet another; else one for each that avoids its own."""
    single = {each.role for each in parsed.replicas if each.count == 1}
    involved = sorted({role for pair in apart for role in pair})
    own = f"{APART}{parsed.namespace}/{parsed.kind.lower()}/{parsed.name}"
    if all(pair in apart or (pair[0] == pair[1] and pair[0] in single) for pair in product(involved, repeat=2)):
        return dict.fromkeys(involved, own)
    return {role: f"{own}/{role}" for role in involved if (role, role) in apart}


def _within(term: Mapping[str, Any], pods: Mapping[str, Manifest]) -> bool:
    """Whether it is about hosts, and pods of the job."""
    return _is_plain(term) and any(_selects(term, pod) for pod in pods.values())


def _avoided(pod: Manifest, others: Mapping[str, Manifest]) -> Iterator[str]:
    """The roles whose pods a pod must not meet."""
    for term in _required(pod["spec"]):
        yield from (role for role, other in others.items() if _is_plain(term) and _selects(term, other))


def _required(spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    anti = (spec.get("affinity") or {}).get("podAntiAffinity") or {}
    return anti.get("requiredDuringSchedulingIgnoredDuringExecution") or ()


def _is_plain(term: Mapping[str, Any]) -> bool:
    """Whether it looks at hosts, and at pods of its own namespace with some labels."""
    return term.get("topologyKey") == HOSTNAME and all(term.get(each) is None for each in _FURTHER)


def _selects(term: Mapping[str, Any], pod: Manifest) -> bool:
    """Whether the term's labelSelector selects a pod. Without a selector it selects none, an empty one all."""
    selector = term.get("labelSelector")
    if selector is None:
        return False
    labels = pod["metadata"].get("labels") or {}
    equal = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return equal and all(_meets(labels, each) for each in selector.get("matchExpressions") or ())


def _meets(labels: Mapping[str, str], condition: Mapping[str, Any]) -> bool:
    key, values = condition.get("key", ""), _values(condition.get("values"))
    match condition.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False


def _values(written: Iterable[str] | None) -> tuple[str, ...]:
    return tuple(written or ())
