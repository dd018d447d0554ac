"""Objects of a cluster as the caller may read them, the kinds that are read, and accessors for their fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from windlass.diagnose.network.result_log import NetworkResult
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.status.status_times import milliseconds

Condition: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SurveyKind:
    """A kind that is read. `versions`: of its API group, the first that the cluster serves is used."""

    name: str
    kind: str
    group: str = ""
    versions: tuple[str, ...] = ("v1",)
    namespaced: bool = True

    @property
    def full_name(self) -> str:
        """The name that RBAC and kubectl know: `daemonsets.apps`."""
        return f"{self.name}.{self.group}" if self.group else self.name


_DRA = ("v1", "v1beta2", "v1beta1")
KINDS = (
    SurveyKind("nodes", "Node", namespaced=False),
    SurveyKind("pods", "Pod"),
    SurveyKind("resourcequotas", "ResourceQuota"),
    SurveyKind("persistentvolumeclaims", "PersistentVolumeClaim"),
    SurveyKind("leases", "Lease", "coordination.k8s.io"),
    SurveyKind("daemonsets", "DaemonSet", "apps"),
    SurveyKind("deployments", "Deployment", "apps"),
    SurveyKind("deviceclasses", "DeviceClass", "resource.k8s.io", _DRA, namespaced=False),
    SurveyKind("resourceslices", "ResourceSlice", "resource.k8s.io", _DRA, namespaced=False),
    SurveyKind("clusterpolicies", "ClusterPolicy", "nvidia.com", namespaced=False),
    SurveyKind("clusterqueues", "ClusterQueue", "kueue.x-k8s.io", ("v1beta2", "v1beta1"), namespaced=False),
    SurveyKind("localqueues", "LocalQueue", "kueue.x-k8s.io", ("v1beta2", "v1beta1")),
    SurveyKind("queues", "Queue", "scheduling.volcano.sh", ("v1beta1",), namespaced=False),
    SurveyKind("queues", "Queue", "windlass.dev", ("v1alpha1",), namespaced=False),
)
"""Every kind that the checks know. Nothing but lists of these is read."""


@dataclass(frozen=True, slots=True)
class ClusterSurvey:
    """Objects by full name of their kind. A kind that the cluster does not serve has none.

    `now`: milliseconds since the epoch; `refused`: kind → the API server's words, where the caller may not list it;
    `namespace`: the only one whose objects could be listed, "" for all; `network_tests`: the last result of the network
    test for each set of nodes, the newest first.
    """

    now: int
    objects: Mapping[str, Sequence[Manifest]] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    namespace: str = ""
    network_tests: Sequence[NetworkResult] = ()

    def of(self, kind: str) -> Sequence[Manifest]:
        """Returns the objects of a kind."""
        return self.objects.get(kind, ())

    def is_known(self, kind: str) -> bool:
        """Returns whether a kind was listed in the whole cluster: only then absence proves something."""
        return kind not in self.refused and not self.namespace


def read(value: Any, *path: str) -> Any:
    """Returns a nested field; None if any part of the path is missing or has another shape."""
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def mapping(value: Any, *path: str) -> Mapping[str, Any]:
    """Returns a nested field that is a mapping, else an empty one."""
    found = read(value, *path)
    return found if isinstance(found, Mapping) else {}


def items(value: Any, *path: str) -> list[Any]:
    """Returns a nested field that is a list, else an empty one."""
    found = read(value, *path)
    return found if isinstance(found, list) else []


def text(value: Any, *path: str) -> str:
    """Returns a nested field that is text, else ""."""
    found = read(value, *path)
    return found if isinstance(found, str) else ""


def number(value: Any, *path: str) -> int:
    """Returns a nested field that is an integer, else 0."""
    found = read(value, *path)
    return found if isinstance(found, int) else 0


def name_of(manifest: Manifest) -> str:
    """Returns namespace and name as kubectl takes them."""
    namespace, name = text(manifest, "metadata", "namespace"), text(manifest, "metadata", "name")
    return f"{namespace}/{name}" if namespace else name


def labels_of(manifest: Manifest) -> Mapping[str, Any]:
    """Returns the labels of an object."""
    return mapping(manifest, "metadata", "labels")


def conditions_of(manifest: Manifest) -> Iterator[Condition]:
    """Yields the conditions of an object."""
    return (each for each in items(manifest, "status", "conditions") if isinstance(each, Mapping))


def find_condition(manifest: Manifest, kind: str) -> Condition:
    """Returns the condition of a type, an empty one if there is none."""
    return next((each for each in conditions_of(manifest) if each.get("type") == kind), {})


def age_s(moment: Any, now: int) -> float:
    """Returns the seconds since a time of the API; 0 for a time that cannot be read."""
    at = milliseconds(moment)
    return 0.0 if at is None else max(0.0, (now - at) / 1000)
