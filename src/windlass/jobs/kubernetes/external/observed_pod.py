# ruff: noqa: D102 - the Kubernetes API reference describes its fields
"""Protocols of the pod fields that this package reads: as the API has them, in snake case, for any decoder.

The Kubernetes backend passes its own structs (`backends.kubernetes.client.objects`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Owner(Protocol):
    """Of `metadata.ownerReferences`."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def controller(self) -> bool | None: ...


class About(Protocol):
    """`metadata`."""

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
    def owner_references(self) -> Sequence[Owner]: ...
    @property
    def deletion_timestamp(self) -> str | None: ...


class SchedulingGroup(Protocol):
    """`spec.schedulingGroup`."""

    @property
    def pod_group_name(self) -> str: ...


class Tolerated(Protocol):
    """Of `spec.tolerations`."""

    @property
    def key(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


class Spec(Protocol):
    """`spec`."""

    @property
    def node_name(self) -> str: ...
    @property
    def node_selector(self) -> Mapping[str, str]: ...
    @property
    def affinity(self) -> dict[str, Any] | None: ...
    @property
    def tolerations(self) -> Sequence[Tolerated]: ...
    @property
    def priority(self) -> int: ...
    @property
    def termination_grace_period_seconds(self) -> int | None: ...
    @property
    def scheduling_group(self) -> SchedulingGroup | None: ...


class Status(Protocol):
    """`status`."""

    @property
    def phase(self) -> str: ...


class Pod(Protocol):
    """A pod."""

    @property
    def metadata(self) -> About: ...
    @property
    def spec(self) -> Spec: ...
    @property
    def status(self) -> Status: ...
