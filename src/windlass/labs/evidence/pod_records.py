"""Pods of a lab's namespace, as typed records with the facts that checks compare."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from windlass.labs.evidence.findings import EvidenceError
from windlass.labs.evidence.lab import Lab

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class _Owner(msgspec.Struct):
    kind: str
    name: str
    uid: str


class _Meta(msgspec.Struct):
    name: str
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    ownerReferences: list[_Owner] = []  # noqa: N815 - the API's name


class _Resources(msgspec.Struct):
    limits: dict[str, str] = {}


class _Mount(msgspec.Struct):
    name: str
    mountPath: str  # noqa: N815


class _Container(msgspec.Struct):
    resources: _Resources = msgspec.field(default_factory=_Resources)
    volumeMounts: list[_Mount] = []  # noqa: N815


class _Spec(msgspec.Struct):
    containers: list[_Container]
    schedulerName: str = ""  # noqa: N815
    nodeName: str = ""  # noqa: N815
    hostIPC: bool = False  # noqa: N815
    volumes: list[dict[str, Any]] = []


class _Condition(msgspec.Struct):
    type: str
    status: str
    lastTransitionTime: datetime | None = None  # noqa: N815


class _Ended(msgspec.Struct):
    exitCode: int  # noqa: N815
    reason: str = ""
    message: str = ""
    finishedAt: datetime | None = None  # noqa: N815


class _State(msgspec.Struct):
    terminated: _Ended | None = None


class _ContainerStatus(msgspec.Struct):
    state: _State = msgspec.field(default_factory=_State)


class _Status(msgspec.Struct):
    phase: str = ""
    conditions: list[_Condition] = []
    containerStatuses: list[_ContainerStatus] = []  # noqa: N815


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


class _Pods(msgspec.Struct):
    items: list[_Pod]


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod. The facts of its container are those of the first one."""

    name: str
    labels: dict[str, str]
    annotations: dict[str, str]
    owner_kind: str
    owner: str
    owner_uid: str
    scheduler: str
    node: str
    """Empty: no node yet."""
    phase: str
    gpus: int
    """Devices `nvidia.com/gpu` of all containers."""
    memory_limit: str
    """As in the manifest, such as `4Gi`; empty: none."""
    volumes: dict[str, dict[str, Any]]
    """The volumes of the container by the folder that it sees."""
    shares_ipc: bool
    """Whether it has the shared memory of its node (`hostIPC`)."""
    scheduled_at: datetime
    """Time of the binding in whole seconds; 1970: not bound."""
    finished_at: datetime
    exit_code: int | None
    reason: str
    """The kubelet's word for the end, such as `OOMKilled`."""
    message: str
    """Content of /dev/termination-log at the end. Untrusted."""

    @property
    def succeeded(self) -> bool:
        """Whether the pod has ended with success."""
        return self.phase == "Succeeded"


def read_pods(lab: Lab, selector: str = "") -> list[PodRecord]:
    """Returns the pods of a lab by name; `selector`: of labels, as in `app=train`. Raises EvidenceError."""
    answer = lab.kube(f"pods?labelSelector={selector}" if selector else "pods")
    try:
        pods = msgspec.convert(answer or {"items": []}, _Pods).items
    except msgspec.ValidationError as error:
        raise EvidenceError(f"the pods of the lab cannot be read: {error}", "kubectl get pods -o yaml") from None
    return sorted(map(_record_of, pods), key=lambda pod: pod.name)


def _record_of(pod: _Pod) -> PodRecord:
    owner = next(iter(pod.metadata.ownerReferences), _Owner("", "", ""))
    bound = [each for each in pod.status.conditions if (each.type, each.status) == ("PodScheduled", "True")]
    ended = next((each.state.terminated for each in pod.status.containerStatuses), None)
    volumes = {str(each.get("name")): each for each in pod.spec.volumes}
    container = pod.spec.containers[0]
    gpus = [each.resources.limits.get("nvidia.com/gpu", "0") for each in pod.spec.containers]
    return PodRecord(
        name=pod.metadata.name,
        labels=pod.metadata.labels,
        annotations=pod.metadata.annotations,
        owner_kind=owner.kind,
        owner=owner.name,
        owner_uid=owner.uid,
        scheduler=pod.spec.schedulerName,
        node=pod.spec.nodeName,
        phase=pod.status.phase,
        gpus=sum(int(each) for each in gpus if each.isdigit()),
        memory_limit=container.resources.limits.get("memory", ""),
        volumes={each.mountPath.rstrip("/"): volumes.get(each.name, {}) for each in container.volumeMounts},
        shares_ipc=pod.spec.hostIPC,
        scheduled_at=(bound[0].lastTransitionTime if bound else None) or _BEGINNING,
        finished_at=(ended.finishedAt if ended else None) or _BEGINNING,
        exit_code=ended.exitCode if ended else None,
        reason=ended.reason if ended else "",
        message=ended.message if ended else "",
    )
