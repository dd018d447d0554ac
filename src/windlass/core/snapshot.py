"""One consistent picture of the cluster, on which a plan is made. Nothing in it changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from windlass.core.cluster import Node, Topology
from windlass.core.gang import Pending, Running
from windlass.core.queue import Queue

Amounts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NodeTable:
    """The nodes as dense arrays, one row a node, sorted by topology place, then name.

    Rebuilt only when nodes change; `epoch` then grows, so whatever was computed per selector can be kept.
    N nodes, R resources.
    """

    epoch: int
    axis: tuple[str, ...]
    """Names of the R columns."""
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


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What `schedule` reads. `version` names it; a Plan carries the version it was made on."""

    version: int
    table: NodeTable
    free: Amounts
    """int64[N, R]: capacity less what running gangs hold; read-only."""
    queues: Mapping[str, Queue]
    held: Mapping[str, Mapping[str, int]]
    """By queue: what its running gangs hold together."""
    pending: tuple[Pending, ...]
    running: Mapping[str, Running]
