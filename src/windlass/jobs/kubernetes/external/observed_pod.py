# ruff: noqa: D102 - the Kubernetes API reference describes its fields
"""Protocols of the pod fields that this package reads: as the API has them, in snake case, for any decoder.

The Kubernetes backend passes its own structs (`backends.kubernetes.client.objects`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class OwnerReference(Protocol):
    """The fields of an entry of `metadata.ownerReferences` that are used."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def controller(self) -> bool | None: ...


class PodMetadata(Protocol):
    """The fields of `metadata` that are used."""

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def annotations(self) -> Mapping[str, str]: ...
    @property
    def owner_references(self) -> Sequence[OwnerReference]: ...
    @property
    def deletion_timestamp(self) -> str | None: ...


class SchedulingGroup(Protocol):
    """The fields of `spec.schedulingGroup` that are used."""

    @property
    def pod_group_name(self) -> str: ...


class PodToleration(Protocol):
    """The fields of an entry of `spec.tolerations` that are used."""

    @property
    def key(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


class PodSpec(Protocol):
    """The fields of `spec` that are used."""

    @property
    def node_name(self) -> str: ...
    @property
    def node_selector(self) -> Mapping[str, str]: ...
    @property
    def affinity(self) -> dict[str, Any] | None: ...
    @property
    def tolerations(self) -> Sequence[PodToleration]: ...
    @property
    def priority(self) -> int: ...
    @property
    def termination_grace_period_seconds(self) -> int | None: ...
    @property
    def scheduling_group(self) -> SchedulingGroup | None: ...


class PodStatus(Protocol):
    """The fields of `status` that are used."""

    @property
    def phase(self) -> str: ...


class Pod(Protocol):
    """A pod."""

    @property
    def metadata(self) -> PodMetadata: ...
    @property
    def spec(self) -> PodSpec: ...
    @property
    def status(self) -> PodStatus: ...
