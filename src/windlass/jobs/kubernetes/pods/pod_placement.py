"""Placement constraints of a template in the core's terms, and those that the scheduler ignores."""

from __future__ import annotations

from windlass.core.model.job import Match, Toleration
from windlass.core.nodes.affinity import affinity_fault
from windlass.jobs.kubernetes.manifest_reader import ManifestField
from windlass.jobs.kubernetes.pods.pod_requests import gpu_resources

NODE_NAME = "metadata.name"
"""A term's matchFields compare a node's name; to the core it is a label of this name, which the backend adds."""
HOSTNAME = "kubernetes.io/hostname"
_OPERATORS = {"Equal", "Exists"}
_UNHEEDED = (
    (("affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution"), "podAffinity"),
    (("topologySpreadConstraints",), "topologySpreadConstraints"),
)

_MAX_CONDITIONS, _MAX_VALUES = 256, 1_024
"""Maximum number of conditions, and of values in all of them, in the node affinity of one pod."""


def affinity_of(spec: ManifestField) -> tuple[tuple[Match, ...], ...]:
    """The required terms of nodeAffinity; empty: every node. Raises ManifestError."""
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    terms = required["nodeSelectorTerms"]
    _check_size(terms)
    matches = tuple(
        tuple(_match(match) for match in (*term["matchExpressions"].items(), *term["matchFields"].items()))
        for term in terms.items()
    )
    if required.value is not None and not matches:
        terms.refuse("expects one term at least; without terms no node would do")
    if wrong := affinity_fault(matches):
        terms.refuse(wrong)
    return matches


def _check_size(terms: ManifestField) -> None:
    """Refuses terms that would take long to evaluate: each condition is compared with the labels of all nodes."""
    conditions = [
        each for term in terms.items() for part in ("matchExpressions", "matchFields") for each in term[part].items()
    ]
    values = sum(len(each["values"].items()) for each in conditions)
    if len(conditions) > _MAX_CONDITIONS:
        terms.refuse(
            f"has {len(conditions)} conditions; at most {_MAX_CONDITIONS} are allowed: label the nodes instead"
        )
    if values > _MAX_VALUES:
        terms.refuse(f"names {values} values; at most {_MAX_VALUES} are allowed: label the nodes instead")


def _match(written: ManifestField) -> Match:
    key, operator = written["key"].text(), written["operator"].text()
    if not key:
        written["key"].refuse("expects the name of a label, such as topology.kubernetes.io/zone")
    return Match(key, operator, written["values"].text_list())


def tolerations_of(spec: ManifestField) -> tuple[Toleration, ...]:
    """Tolerations of the pods, with those that Windlass adds for GPUs. Raises ManifestError.

    `tolerationSeconds` concerns the eviction only.
    """
    written = (_toleration(toleration) for toleration in spec["tolerations"].items())
    added = (Toleration(name, "Exists", "", "NoSchedule") for name in gpu_resources(spec))
    return tuple(dict.fromkeys([*written, *added]))


def _toleration(written: ManifestField) -> Toleration:
    operator = written["operator"].text() or "Equal"
    if operator not in _OPERATORS:
        written["operator"].refuse("expects Equal or Exists")
    return Toleration(written["key"].text(), operator, written["value"].text(), written["effect"].text())


def ignored_fields(spec: ManifestField) -> list[str]:
    """Names of placement constraints that the scheduler ignores."""
    found = []
    for path, name in _UNHEEDED:
        field = spec
        for part in path:
            field = field[part]
        if field.items():
            found.append(name)
    return found
