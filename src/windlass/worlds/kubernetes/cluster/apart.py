"""Pods that may not share a node because they avoid their own like: by a resource of which each node has one.

The resource is named after the selector of their anti-affinity, so all pods that avoid what they are themselves ask
for the same: that is exact, and what people write to get one pod on each node. Anti-affinity to pods that do not avoid
back, or over wider domains than a host, is not looked at. Source: Kubernetes, the scheduler's InterPodAffinity plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from windlass.core.affinity import meets, said
from windlass.core.job import Match
from windlass.jobs.kubernetes import kinds
from windlass.jobs.kubernetes.parsed import Parsed
from windlass.jobs.kubernetes.reading import Refused, Spot
from windlass.worlds.kubernetes.client.objects import Pod
from windlass.worlds.kubernetes.cluster.levels import HOSTNAME

APART = "apart/"
"""Begins the name of such a resource."""
Selector: TypeAlias = tuple[Match, ...]
"""Conditions on a pod's labels, all of them."""
_FURTHER = ("namespaces", "namespaceSelector", "matchLabelKeys", "mismatchLabelKeys")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_EVERY = (Match("", "DoesNotExist"),)
"""An empty selector selects every pod: none has a label without a name."""


class Separated(NamedTuple):
    """What a job's anti-affinity comes to."""

    resources: Mapping[str, tuple[str, ...]]
    """By role: what its pods ask for, one of each."""
    heeded: frozenset[str]
    """Roles of whose anti-affinity nothing is left out."""


def separated(parsed: Parsed) -> Separated:
    """Which pods of a job may not share a node. Raises Refused."""
    specs = {each.role: Spot(each.template)["spec"] for each in parsed.replicas}
    if not any(_required(spec) for spec in specs.values()):
        return Separated({}, frozenset())
    wishes = {role: [_selector(term) for term in _required(spec)] for role, spec in specs.items()}
    pods = {member.role: member.pod for member in reversed(kinds.members(parsed, 1))}
    labels = {role: Spot(pod)["metadata"]["labels"].texts() for role, pod in pods.items()}
    single = {each.role for each in parsed.replicas if each.count == 1}
    selectors = dict.fromkeys(one for wish in wishes.values() for one in wish if one)
    asked = {
        role: tuple(
            _named(parsed.namespace, one)
            for one in selectors
            if meets(labels[role], [one]) and (one in wishes[role] or role in single)
        )
        for role in pods
    }
    heeded = {role for role in pods if all(one and meets(labels[role], [one]) for one in wishes[role])}
    return Separated(asked, frozenset(heeded))


def of_pod(pod: Pod) -> tuple[str, ...]:
    """What a pod that exists already asks for, one of each."""
    if not pod.spec.affinity:
        return ()
    try:
        selectors = [_selector(term) for term in _required(Spot({"affinity": pod.spec.affinity}))]
    except Refused:  # whatever it says, an API server would not have taken it
        return ()
    mine = pod.metadata
    return tuple(_named(mine.namespace, one) for one in selectors if one and meets(mine.labels, [one]))


def _required(spec: Spot) -> list[Spot]:
    return spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"].items()


def _selector(term: Spot) -> Selector:
    """Which pods of its namespace it keeps off its host; empty if it is about more than that, or about no pod."""
    written = term["labelSelector"]
    if term["topologyKey"].text() != HOSTNAME or written.value is None or any(term[each].value for each in _FURTHER):
        return ()
    equal = [Match(key, "In", (value,)) for key, value in written["matchLabels"].texts().items()]
    others = [
        Match(each["key"].text(), each["operator"].choice(_OPERATORS, ""), each["values"].words())
        for each in written["matchExpressions"].items()
    ]
    return tuple(sorted([*equal, *others], key=_sorted)) or _EVERY


def _sorted(match: Match) -> tuple[str, str, tuple[str, ...]]:
    return match.key, match.operator, match.values


def _named(namespace: str, selector: Selector) -> str:
    parts = [
        f"{match.key}={match.values[0]}" if match.operator == "In" and len(match.values) == 1 else said([[match]])
        for match in selector
    ]
    return f"{APART}{namespace}/{','.join(parts) if selector != _EVERY else '*'}"
