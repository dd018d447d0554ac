"""The objects that the scheduler reads constantly, as small structs with only the fields that it needs.

Field names are the API's in snake case; absent fields are None, "" or empty. Quantities and times stay text, opaque
parts are dicts. Structs are frozen and excluded from garbage collection, as none can be part of a cycle. Strings,
resources and tolerations that many objects repeat are interned: that halves the memory of ten thousand pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from windlass.backends.kubernetes.client.owners import OwnerKey

StringMap: TypeAlias = Mapping[str, str]
EMPTY_MAP: StringMap = MappingProxyType({})
"""The value of every absent map, shared by all objects."""
_LONG = 64
"""Maximum length of interned strings in characters; longer values rarely repeat."""


@lru_cache(4096)
def _interned(things: Any) -> Any:
    return things


@lru_cache(4096)
def _interned_map(items: tuple[tuple[str, str], ...]) -> StringMap:
    return dict(items)


def _interned_strings(strings: StringMap) -> StringMap:
    return {intern(key): intern(value) if len(value) <= _LONG else value for key, value in strings.items()}


class ApiStruct(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Base of all structs."""


class Owner(ApiStruct, frozen=True):
    """An entry of `metadata.ownerReferences`."""

    kind: str
    name: str
    uid: str
    api_version: str = ""
    controller: bool | None = None

    def __post_init__(self) -> None:
        for name in ("kind", "name", "uid", "api_version"):
            force_setattr(self, name, intern(getattr(self, name)))


class Metadata(ApiStruct, frozen=True):
    """Metadata of every object."""

    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    labels: StringMap = EMPTY_MAP
    annotations: StringMap = EMPTY_MAP
    owner_references: tuple[Owner, ...] = ()
    finalizers: tuple[str, ...] = ()
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None

    @property
    def controller(self) -> OwnerKey | None:
        """Key of the object that controls this one; None for none."""
        return next((OwnerKey(self.namespace, owner.uid) for owner in self.owner_references if owner.controller), None)

    def __post_init__(self) -> None:
        force_setattr(self, "namespace", intern(self.namespace))
        if self.labels:
            force_setattr(self, "labels", _interned_strings(self.labels))
        if self.annotations:
            force_setattr(self, "annotations", _interned_strings(self.annotations))


class Condition(ApiStruct, frozen=True):
    """A condition of a pod's or a node's status."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "type", intern(self.type))
        force_setattr(self, "status", intern(self.status))
        force_setattr(self, "reason", intern(self.reason))
        if self.last_transition_time is not None:
            force_setattr(self, "last_transition_time", intern(self.last_transition_time))


class Toleration(ApiStruct, frozen=True):
    """A toleration of a pod. An empty key with Exists tolerates everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Port(ApiStruct, frozen=True):
    """A port of a container."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class Resources(ApiStruct, frozen=True):
    """Quantities as text."""

    requests: StringMap = EMPTY_MAP
    limits: StringMap = EMPTY_MAP

    def __post_init__(self) -> None:
        force_setattr(self, "requests", _interned_map(tuple(self.requests.items())))
        force_setattr(self, "limits", _interned_map(tuple(self.limits.items())))


_NOTHING_ASKED = Resources()


class Container(ApiStruct, frozen=True):
    """A container or an init container; one that is always restarted is a sidecar."""

    name: str
    resources: Resources = _NOTHING_ASKED
    ports: tuple[Port, ...] = ()
    restart_policy: str = ""


class Claim(ApiStruct, frozen=True):
    """A volume's source."""

    claim_name: str = ""


class Volume(ApiStruct, frozen=True):
    """A volume with a claim, named or ephemeral (`<pod>-<volume>`); other volumes are not represented."""

    name: str = ""
    persistent_volume_claim: Claim | None = None
    ephemeral: dict[str, Any] | None = None


class SchedulingGate(ApiStruct, frozen=True):
    """An entry of `spec.schedulingGates`: a pod with one is not to be placed."""

    name: str


class SchedulingGroup(ApiStruct, frozen=True):
    """The native API's reference from a pod to its gang."""

    pod_group_name: str = ""


class PodSpec(ApiStruct, frozen=True):
    """Fields of PodSpec in the Kubernetes API that Windlass uses."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    node_name: str = ""
    scheduler_name: str = ""
    node_selector: StringMap = EMPTY_MAP
    affinity: dict[str, Any] | None = None
    tolerations: tuple[Toleration, ...] = ()
    priority: int = 0
    priority_class_name: str = ""
    preemption_policy: str = ""
    volumes: tuple[Volume, ...] = ()
    overhead: StringMap = EMPTY_MAP
    resources: Resources = _NOTHING_ASKED
    scheduling_group: SchedulingGroup | None = None
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    termination_grace_period_seconds: int | None = None
    restart_policy: str = ""
    host_network: bool = False

    def __post_init__(self) -> None:
        for name in ("node_name", "scheduler_name", "priority_class_name", "preemption_policy", "restart_policy"):
            force_setattr(self, name, intern(getattr(self, name)))
        force_setattr(self, "tolerations", _interned(self.tolerations))
        if self.node_selector:
            force_setattr(self, "node_selector", _interned_map(tuple(self.node_selector.items())))


class Waiting(ApiStruct, frozen=True):
    """A container that does not run yet, or not at present."""

    reason: str = ""
    message: str = ""


class Running(ApiStruct, frozen=True):
    """A running container."""

    started_at: str | None = None


class Terminated(ApiStruct, frozen=True):
    """A terminated container."""

    exit_code: int
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(ApiStruct, frozen=True):
    """One of the three states, or none."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


_NO_STATE = ContainerState()


class ContainerStatus(ApiStruct, frozen=True):
    """The status of a container."""

    name: str
    state: ContainerState = _NO_STATE
    last_state: ContainerState = _NO_STATE
    """The end before the last restart in place; no state without one."""
    ready: bool = False
    restart_count: int = 0
    resources: Resources = _NOTHING_ASKED
    """Resources that its node has given it: other ones than in the spec while a resize is not carried out."""


class PodStatus(ApiStruct, frozen=True):
    """Fields of PodStatus in the Kubernetes API that Windlass uses."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    pod_ip: str = msgspec.field(default="", name="podIP")
    host_ip: str = msgspec.field(default="", name="hostIP")
    start_time: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the containers of the pod have ended for good."""
        return self.phase in ("Succeeded", "Failed")


_NO_POD_STATUS = PodStatus()


class Pod(ApiStruct, frozen=True):
    """core/v1."""

    metadata: Metadata
    spec: PodSpec
    status: PodStatus = _NO_POD_STATUS


class Taint(ApiStruct, frozen=True):
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""


class Address(ApiStruct, frozen=True):
    """An address of a node: `type` is InternalIP, Hostname, …."""

    type: str
    address: str


class NodeSpec(ApiStruct, frozen=True):
    """Fields of NodeSpec in the Kubernetes API that Windlass uses."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(ApiStruct, frozen=True):
    """Fields of NodeStatus in the Kubernetes API that Windlass uses."""

    allocatable: StringMap = EMPTY_MAP
    capacity: StringMap = EMPTY_MAP
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[Address, ...] = ()


_NO_NODE_SPEC, _NO_NODE_STATUS = NodeSpec(), NodeStatus()


class Node(ApiStruct, frozen=True):
    """core/v1."""

    metadata: Metadata
    spec: NodeSpec = _NO_NODE_SPEC
    status: NodeStatus = _NO_NODE_STATUS


class Phase(ApiStruct, frozen=True):
    """The status of an object with a phase only."""

    phase: str = ""


_NO_PHASE = Phase()


class Namespace(ApiStruct, frozen=True):
    """core/v1. Its phase is Active or Terminating."""

    metadata: Metadata
    status: Phase = _NO_PHASE


class ClaimSpec(ApiStruct, frozen=True):
    """The spec of a claim."""

    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()


_NO_CLAIM_SPEC = ClaimSpec()


class PersistentVolumeClaim(ApiStruct, frozen=True):
    """core/v1. Its phase is Pending, Bound or Lost."""

    metadata: Metadata
    spec: ClaimSpec = _NO_CLAIM_SPEC
    status: Phase = _NO_PHASE


class VolumeSpec(ApiStruct, frozen=True):
    """The spec of a volume; `node_affinity` as in the API: `{"required": {"nodeSelectorTerms": […]}}`."""

    node_affinity: dict[str, Any] | None = None
    storage_class_name: str = ""


_NO_VOLUME_SPEC = VolumeSpec()


class PersistentVolume(ApiStruct, frozen=True):
    """core/v1."""

    metadata: Metadata
    spec: VolumeSpec = _NO_VOLUME_SPEC
    status: Phase = _NO_PHASE


class PriorityClass(ApiStruct, frozen=True):
    """scheduling.k8s.io/v1."""

    metadata: Metadata
    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""
    description: str = ""


pod = msgspec.json.Decoder(Pod).decode
node = msgspec.json.Decoder(Node).decode
namespace = msgspec.json.Decoder(Namespace).decode
claim = msgspec.json.Decoder(PersistentVolumeClaim).decode
volume = msgspec.json.Decoder(PersistentVolume).decode
priority_class = msgspec.json.Decoder(PriorityClass).decode
