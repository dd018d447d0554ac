"""Frames of nodes, from a measurement of the node or from what the ranks there report. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from windlass.telemetry.frames import MetricFrame, Vector, node_scope, scalar

MAX_NODES = 5_000
"""Nodes with a frame of their own; those beyond it are left out."""


@dataclass(frozen=True, slots=True)
class GpuMeasurement:
    """Values of one GPU; None: not known. `utilization` from 0 to 1, `memory` in bytes, `temperature` in °C."""

    utilization: float | None = None
    memory: float | None = None
    temperature: float | None = None
    is_healthy: bool | None = None


@dataclass(frozen=True, slots=True)
class NodeMeasurement:
    """Values of one node; None: not known. `cpu` from 0 to 1, `memory` in bytes.

    `names_gpus`: the GPUs are all of the node, in order of their index, and not only those of the ranks that report.
    """

    cpu: float | None = None
    memory: float | None = None
    gpus: Sequence[GpuMeasurement] = ()
    names_gpus: bool = False


def node_frames(measured: Mapping[str, NodeMeasurement], now: int) -> Iterator[MetricFrame]:
    """A frame for each node that has values."""
    for name in sorted(measured)[:MAX_NODES]:
        node = measured[name]
        values = {**_node_values(node), **(_gpu_vectors(node.gpus) if node.names_gpus else {})}
        if values:
            yield MetricFrame(node_scope(name), now, values)


def nodes_of_ranks(ranks: Iterable[Mapping[str, Any]]) -> dict[str, NodeMeasurement]:
    """Measurements of nodes by the reports of ranks there. `ranks`: as `DataSource.ranks_seen` returns them."""
    found: dict[str, list[GpuMeasurement]] = {}
    whole: dict[str, tuple[float | None, float | None]] = {}
    for rank in ranks:
        values, node = rank.get("values", {}), rank.get("node")
        cpu, used = (_finite(values.get(f"node_{name}")) for name in ("cpu", "memory"))
        if node and (cpu, used) != (None, None):
            whole[node] = cpu, used
        use, memory, heat = (_finite(values.get(f"gpu_{name}")) for name in ("utilisation", "memory", "temperature"))
        gpu = GpuMeasurement(use, memory, heat)
        if node and gpu != GpuMeasurement():
            found.setdefault(node, []).append(gpu)
    return {node: NodeMeasurement(*whole.get(node, (None, None)), gpus=found.get(node, ())) for node in (whole | found)}


def _finite(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and math.isfinite(value)
    return float(value) if is_number else None


def _node_values(node: NodeMeasurement) -> dict[str, Vector]:
    use = _known(gpu.utilization for gpu in node.gpus)
    health = _known(gpu.is_healthy for gpu in node.gpus)
    values = {
        "windlass_node_cpu_utilization_ratio": node.cpu,
        "windlass_node_memory_used_bytes": node.memory,
        "windlass_node_gpu_utilization_ratio": sum(use) / len(use) if use else None,
        "windlass_node_gpu_memory_used_bytes": _sum(gpu.memory for gpu in node.gpus),
        "windlass_node_gpu_temperature_celsius": max(_known(gpu.temperature for gpu in node.gpus), default=None),
        "windlass_node_unhealthy_gpus": len(health) - sum(health) if health else None,
    }
    return {metric: scalar(value) for metric, value in values.items() if value is not None}


def _gpu_vectors(gpus: Sequence[GpuMeasurement]) -> dict[str, Vector]:
    """One vector for each value, by index of the GPU; NaN where a GPU does not have it."""
    columns: dict[str, list[float | None]] = {
        "windlass_gpu_utilization_ratio": [gpu.utilization for gpu in gpus],
        "windlass_gpu_memory_used_bytes": [gpu.memory for gpu in gpus],
        "windlass_gpu_temperature_celsius": [gpu.temperature for gpu in gpus],
        "windlass_gpu_healthy": [gpu.is_healthy for gpu in gpus],
    }
    return {metric: np.array(values, dtype=np.float32) for metric, values in columns.items() if _known(values)}


def _known(values: Iterable[float | None]) -> list[float]:
    return [float(value) for value in values if value is not None]


def _sum(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return math.fsum(known) if known else None
