"""Fragmentation: free GPUs that the typical demands of a cluster could not use.

After Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent"
(USENIX ATC 2023). A typical demand that does not fit on a node cannot use any of its free GPUs; one that fits cannot
use those GPUs on which too little is left for it. The expectation over all typical demands is the node's
fragmentation F, here in thousandths of a GPU. A replica goes where F grows least. Nodes that share by MIG have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.gang import Demand
from windlass.core.model.resources import GPU, GPU_MILLI, WHOLE
from windlass.core.model.snapshot import Amounts, NodeTable
from windlass.core.nodes.feasibility import Counts, Eligibility, eligibility
from windlass.core.nodes.node_filters import Mask
from windlass.core.placement.node_selection import Rows

Weighted: TypeAlias = Sequence[tuple[Demand, int]]
_COVERED_PERCENT = 95


@dataclass(frozen=True, slots=True, eq=False)
class TypicalDemands:
    """T typical demands on one table of N nodes. A threshold is a demand's request of one GPU, in thousandths."""

    weights: Counts
    """int64[T]"""
    accepts: Mask
    """bool[N, T]: the node would suffice if it were empty."""
    plain: tuple[tuple[int, Counts], ...]
    """(column, int64[T]) of each resource besides GPUs that any of them requests."""
    gpus: Counts
    """int64[T]: number of GPUs, each with the threshold left."""
    thresholds: Counts
    """int64[H], ascending."""
    level: NDArray[np.intp]
    """int[T]: index into the thresholds of each demand."""


@dataclass(frozen=True, slots=True, eq=False)
class FreeGpus:
    """Free amounts on K nodes, as far as the typical demands need them."""

    rows: Rows
    plain: tuple[Counts, ...]
    """int64[K] for each of `TypicalDemands.plain`."""
    fit: Counts
    """int64[K, H]: number of GPUs that have the threshold left."""
    short: Counts
    """int64[K, H]: sum of what the other GPUs have left, in thousandths."""
    total: Counts
    """int64[K]: free GPUs, in thousandths."""

    def of(self, which: NDArray[np.intp]) -> FreeGpus:
        """Returns some of these nodes, or one several times."""
        plain = tuple(left[which] for left in self.plain)
        return FreeGpus(self.rows[which], plain, self.fit[which], self.short[which], self.total[which])


def most_popular(demands: Weighted) -> Weighted:
    """Returns the most popular demands that make up 95 % of all, as in the paper; rare ones make F less distinctive."""
    falling = sorted(demands, key=lambda pair: -pair[1])
    until = accumulate((weight for _, weight in falling), initial=0)
    total = sum(weight for _, weight in demands)
    return [pair for pair, before in zip(falling, until, strict=False) if before * 100 < total * _COVERED_PERCENT]


def typical_demands_of(table: NodeTable, demands: Weighted) -> TypicalDemands:
    """Returns the demands as arrays of this table."""
    ables = [eligibility(table, demand) for demand, _ in demands]
    wants = np.array([_threshold(demand) for demand, _ in demands], dtype=np.int64)
    gpus = [d.resources.get(GPU, 0) or int(d.resources.get(GPU_MILLI, 0) > 0) for d, _ in demands]
    thresholds = np.unique(wants)
    parts = {column for column, name in enumerate(table.resource_names) if name in (GPU, GPU_MILLI)}
    asked = sorted({column for able in ables for column, _ in able.request} - parts)
    return TypicalDemands(
        weights=np.array([weight for _, weight in demands], dtype=np.int64),
        accepts=np.array([able.mask for able in ables], dtype=np.bool_).reshape(len(ables), -1).T,
        plain=tuple((column, np.array([able.request_by_column[column] for able in ables])) for column in asked),
        gpus=np.array(gpus, dtype=np.int64),
        thresholds=thresholds,
        level=np.searchsorted(thresholds, wants),
    )


def _threshold(demand: Demand) -> int:
    return demand.resources.get(GPU_MILLI, 0) or WHOLE


def free_gpus_of(table: NodeTable, typical: TypicalDemands, free: Amounts, rows: Rows) -> FreeGpus:
    """Returns what these nodes have left."""
    gpus = np.maximum(free[rows, table.column[GPU]], 0)
    fit = np.repeat(gpus[:, None], len(typical.thresholds), axis=1)
    short, total = np.zeros_like(fit), gpus * WHOLE
    devices = table.devices
    if devices is not None and len(shared := devices.milli[rows].nonzero()[0]):
        parts = np.maximum(free[rows[shared], devices.columns], 0)
        enough = parts[:, None, :] >= typical.thresholds[:, None]
        fit[shared] = enough.sum(axis=2)
        short[shared] = (parts[:, None, :] * ~enough).sum(axis=2)
        total[shared] = parts.sum(axis=1)
    return FreeGpus(rows, tuple(free[rows, column] for column, _ in typical.plain), fit, short, total)


def fragmentation(typical: TypicalDemands, left: FreeGpus) -> Counts:
    """Returns int64[K]: F of each node, in thousandths of a GPU, rounded down."""
    runs = typical.accepts[left.rows] & (left.fit[:, typical.level] >= typical.gpus) & (typical.gpus > 0)
    for (_, amounts), there in zip(typical.plain, left.plain, strict=True):
        runs &= there[:, None] >= amounts
    wasted = np.where(runs, left.short[:, typical.level], left.total[:, None])
    expected: Counts = (wasted @ typical.weights) // typical.weights.sum()
    return expected


def join_free_gpus(one: FreeGpus, other: FreeGpus) -> FreeGpus:
    """Returns the nodes of one, then those of the other."""
    return FreeGpus(
        rows=np.concatenate((one.rows, other.rows)),
        plain=tuple(np.concatenate(pair) for pair in zip(one.plain, other.plain, strict=True)),
        fit=np.concatenate((one.fit, other.fit)),
        short=np.concatenate((one.short, other.short)),
        total=np.concatenate((one.total, other.total)),
    )


def without_whole_gpus(typical: TypicalDemands, left: FreeGpus, able: Eligibility, gpus: int) -> FreeGpus:
    """Returns what is left after each of these nodes gave a replica `gpus` whole GPUs and the rest of its request."""
    return FreeGpus(
        rows=left.rows,
        plain=_without(typical, left, able),
        fit=left.fit - gpus,
        short=left.short,
        total=left.total - gpus * WHOLE,
    )


def without_gpu_part(
    typical: TypicalDemands, left: FreeGpus, able: Eligibility, before: Counts, milli: int
) -> FreeGpus:
    """Returns what is left after each node gave a replica a part of the GPU that had `before` (int64[K]) left."""
    after, bounds = before - milli, typical.thresholds
    was, still = before[:, None] >= bounds, after[:, None] >= bounds
    return FreeGpus(
        rows=left.rows,
        plain=_without(typical, left, able),
        fit=left.fit - was + still,
        short=left.short - before[:, None] * ~was + after[:, None] * ~still,
        total=left.total - milli,
    )


def _without(typical: TypicalDemands, left: FreeGpus, able: Eligibility) -> tuple[Counts, ...]:
    return tuple(
        there - able.request_by_column[column] for (column, _), there in zip(typical.plain, left.plain, strict=True)
    )
