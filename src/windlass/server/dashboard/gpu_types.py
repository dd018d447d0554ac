"""Types of GPUs of a cluster, with the number that it has and that are free. Pure."""

from __future__ import annotations

from typing import Any

from windlass.core.model.resources import GPU, GPU_TYPE
from windlass.core.model.snapshot import Snapshot

Json = dict[str, Any]


def gpu_types(snapshot: Snapshot) -> list[Json]:
    """Types by the nodes' label, the most numerous first. `free` counts GPUs on nodes that accept jobs."""
    table = snapshot.table
    column = table.column.get(GPU)
    if column is None:
        return []
    found: dict[str, Json] = {}
    for row, node in enumerate(table.nodes):
        name = node.labels.get(GPU_TYPE)
        if name is None or not table.capacity[row, column]:
            continue
        each = found.setdefault(name, {"name": name, "nodes": 0, "total": 0, "free": 0})
        each["nodes"] += 1
        each["total"] += int(table.capacity[row, column])
        each["free"] += int(max(0, snapshot.free[row, column])) if table.usable[row] else 0
    return sorted(found.values(), key=lambda each: (-each["total"], each["name"]))
