"""Turns pod anti-affinity into exclusive resources, of which each node has one.

The resource is named after the selector of the anti-affinity, so all pods that match their own selector request the
same one: that is exact, and the usual way to get one pod on each node. One-sided anti-affinity, and anti-affinity over
wider domains than a host, is ignored. Source: Kubernetes, the scheduler's InterPodAffinity plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from windlass.core.model.job import Match
from windlass.core.nodes.affinity import format_terms, matches_terms
from windlass.jobs.kubernetes.manifest_reader import ManifestField
from windlass.jobs.kubernetes.parsed_job import ParsedJob, Selector
from windlass.jobs.kubernetes.pods.pod_placement import HOSTNAME

EXCLUSION = "apart/"
"""Prefix of the names of such resources."""
_UNSUPPORTED_FIELDS = ("namespaces", "namespaceSelector", "matchLabelKeys", "mismatchLabelKeys")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_EVERY_POD = (Match("", "DoesNotExist"),)
"""An empty selector selects every pod: none has a label without a name."""

Labels = Mapping[str, str]


class Exclusions(NamedTuple):
    """The effect of a job's anti-affinity."""

    resources: Mapping[str, tuple[str, ...]]
    """By role: resources that its pods request, one of each."""
    supported_roles: frozenset[str]
    """Roles whose anti-affinity is applied completely."""


def anti_affinity_selectors(spec: ManifestField) -> tuple[Selector, ...]:
    """Selectors of the pods that a template keeps off its hosts; empty selectors are ignored. Raises ManifestError."""
    terms = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"].items()
    return tuple(map(_selector, terms))


def exclusions_of(parsed: ParsedJob, labels: Mapping[str, Labels]) -> Exclusions:
    """The resources by which pods of a job exclude each other from nodes. `labels`: of a pod of each role with pods."""
    single = {each.role for each in parsed.replicas if each.count == 1}
    selectors = dict.fromkeys(one for role in parsed.anti_affinity.values() for one in role if one)
    resources = {
        role: tuple(
            _named(parsed.namespace, one)
            for one in selectors
            if matches_terms(mine, [one]) and (one in parsed.anti_affinity[role] or role in single)
        )
        for role, mine in labels.items()
    }
    supported = {
        role
        for role, mine in labels.items()
        if all(one and matches_terms(mine, [one]) for one in parsed.anti_affinity[role])
    }
    return Exclusions(resources, frozenset(supported))


def exclusions_of_pod(namespace: str, labels: Labels, selectors: tuple[Selector, ...]) -> tuple[str, ...]:
    """The resources that an existing pod requests, one of each."""
    return tuple(_named(namespace, one) for one in selectors if one and matches_terms(labels, [one]))


def _selector(term: ManifestField) -> Selector:
    """Selector of the pods of its namespace that a term keeps off its host; empty if it has other effects, or none."""
    written = term["labelSelector"]
    if (
        term["topologyKey"].text() != HOSTNAME
        or written.value is None
        or any(term[each].value for each in _UNSUPPORTED_FIELDS)
    ):
        return ()
    equal = [Match(key, "In", (value,)) for key, value in written["matchLabels"].text_map().items()]
    others = [
        Match(each["key"].text(), each["operator"].choice(_OPERATORS, ""), each["values"].text_list())
        for each in written["matchExpressions"].items()
    ]
    return tuple(sorted([*equal, *others], key=_sorted)) or _EVERY_POD


def _sorted(match: Match) -> tuple[str, str, tuple[str, ...]]:
    return match.key, match.operator, match.values


def _named(namespace: str, selector: Selector) -> str:
    parts = [
        f"{match.key}={match.values[0]}"
        if match.operator == "In" and len(match.values) == 1
        else format_terms([[match]])
        for match in selector
    ]
    return f"{EXCLUSION}{namespace}/{','.join(parts) if selector != _EVERY_POD else '*'}"
