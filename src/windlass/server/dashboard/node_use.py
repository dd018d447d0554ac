"""Use and temperature of nodes by the measurements of running ranks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Json = dict[str, Any]


def node_use(jobs: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Json]]:
    """Node → job → `use` (0 to 1, the mean of its ranks there) and `temperature` (°C, the highest); None: not reported.

    `jobs`: lines of jobs with their progress. Use is the utilization of the ranks' GPUs; of ranks without one it is the
    part of a step in which they do not wait.
    """
    found: dict[str, dict[str, Json]] = {}
    for job in jobs:
        by_node: dict[str, list[Mapping[str, float]]] = {}
        for rank in (job["progress"] or {"ranks": []})["ranks"]:
            if rank["node"] and rank["values"]:
                by_node.setdefault(rank["node"], []).append(rank["values"])
        for node, measured in by_node.items():
            uses = [use for values in measured if (use := _use(values)) is not None]
            heat = [values["gpu_temperature"] for values in measured if "gpu_temperature" in values]
            use = sum(uses) / len(uses) if uses else None
            found.setdefault(node, {})[job["id"]] = {"use": use, "temperature": max(heat, default=None)}
    return found


def _use(values: Mapping[str, float]) -> float | None:
    if "gpu_utilisation" in values:
        return values["gpu_utilisation"]
    busy, step = values.get("busy_ms"), values.get("step_ms")
    return min(1.0, busy / step) if busy is not None and step else None
