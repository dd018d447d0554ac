"""The immutable snapshot of the cluster that a plan is made on: nodes as arrays, gangs, queues and policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.devices import Devices
from windlass.core.model.gang import EquivalenceClass, PendingGang, RunningGang
from windlass.core.model.node import Node, Topology
from windlass.core.model.policy import Policy
from windlass.core.model.queue import PastUsage, Queue
from windlass.core.model.reservation import Reservation

Amounts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NodeTable:
    """The nodes as dense arrays, one row per node, sorted by topology place, then name.

    Rebuilt only when nodes change; `epoch` then grows, so that results per selector can be cached.
    N nodes, R resources.
    """

    epoch: int
    resource_names: tuple[str, ...]
    """Names of the R columns, scarcest kind first: devices, then cpu, then memory, then other supplies; last the hidden
    columns of single shared GPUs (`core.model.devices.is_hidden`).
    """
    topology: Topology
    nodes: tuple[Node, ...]
    row: Mapping[str, int]
    """Node name → row."""
    capacity: Amounts
    """int64[N, R]"""
    usable: NDArray[np.bool_]
    """bool[N]: ready and not cordoned."""
    domains: NDArray[np.int32]
    """int32[N, L]: number of the node's domain at each topology level."""
    devices: Devices | None = None
    """Device columns of nodes that share their GPUs; None: no node does."""
    derived: dict[Any, Any] = field(default_factory=dict, repr=False)
    """Cache of results that follow from the fields above, by their own keys (`core.nodes.node_filters`)."""
    constraint_masks: dict[Any, Any] = field(default_factory=dict, repr=False)
    """Cache of masks that follow from names, labels and taints alone: kept while only capacity or state changes."""

    @cached_property
    def column(self) -> Mapping[str, int]:
        """Resource name → column."""
        return {name: number for number, name in enumerate(self.resource_names)}


@dataclass(frozen=True, slots=True, eq=False)
class Grant:
    """Amounts that one gang holds on K nodes: `amounts` (int64[K, R]) of `rows` (int[K], each once)."""

    rows: NDArray[np.intp]
    amounts: Amounts


@dataclass(frozen=True, slots=True)
class UserUsage:
    """Usage by the jobs of one user in one queue."""

    jobs: int
    amounts: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Input of `schedule`. `version` is that of the ledger; a Plan carries the version it was made on.

    Two snapshots of one version differ in `past_usage` at most.
    """

    version: int
    table: NodeTable
    free: Amounts
    """int64[N, R]: capacity minus the grants of running gangs; read-only, columns contiguous."""
    queues: Mapping[str, Queue]
    usage_by_queue: Mapping[str, Mapping[str, int]]
    """By queue: usage of its running gangs, and its `Queue.excess`."""
    running_by_array: Mapping[str, int]
    """By array: number of its members that hold nodes."""
    classes: tuple[EquivalenceClass, ...]
    """All waiting gangs, grouped into classes that get equal answers."""
    running: Mapping[str, RunningGang]
    grants: Mapping[str, Grant]
    """By id of every running gang: its part of the capacity."""
    walltime_ends: tuple[tuple[int, str], ...]
    """(ends_by, id) of the running gangs that have a walltime, soonest first."""
    policy: Policy
    reservations: tuple[Reservation, ...]
    usage_by_user: Mapping[tuple[str, str], UserUsage]
    """By queue and user: usage of running gangs, and of `Queue.excess`."""
    past_usage: Mapping[str, PastUsage]
    """By queue that has a half-life: its decayed usage."""
    running_by_priority: Mapping[tuple[str, int], int]
    """By queue and priority: number of running gangs."""
    elastic_or_stopping: Mapping[str, RunningGang]
    """By id: running gangs that are elastic, being stopped or being resized."""
    exclusive_request_counts: Mapping[str, int]
    """By exclusive resource: number of gangs, waiting or running, that request it."""

    @property
    def releasing(self) -> tuple[RunningGang, ...]:
        """Running gangs that are already being stopped or shrunk."""
        return tuple(run for run in self.elastic_or_stopping.values() if run.stopping or run.resize_to is not None)

    @cached_property
    def uncounted_exclusives(self) -> frozenset[str]:
        """Exclusive resources that several gangs request and that have no column: no gang starts with one of them."""
        column, counts = self.table.column, self.exclusive_request_counts
        return frozenset(name for name, count in counts.items() if count > 1 and name not in column)

    @cached_property
    def pending(self) -> tuple[PendingGang, ...]:
        """Every waiting gang, in queue order."""
        pairs = (pair for each in self.classes for pair in zip(each.sort_keys, each.gangs, strict=True))
        return tuple(gang for _, gang in sorted(pairs, key=itemgetter(0)))
