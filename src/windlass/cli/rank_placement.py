"""Maps the ranks of a job to nodes, attempt by attempt, from the job's details."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.core.model.job import Launcher

RankNodes = dict[tuple[int, int], str]
"""Node by (generation, rank). Output of an agent itself has a rank below 0, as in `backends.local.logs`."""


def nodes_of_ranks(details: Mapping[str, Any]) -> RankNodes:
    """Returns the node of every rank. A task is a rank or, if agents start the ranks, the agent of one replica."""
    spec = details.get("spec") or {}
    if spec.get("launcher") != Launcher.AGENT:
        return {(task["generation"], task["rank"]): task["node"] for task in details["tasks"]}
    procs = {role["name"]: role["procs"] for role in spec["roles"]}
    nodes: RankNodes = {}
    first: dict[int, int] = {}
    for task in sorted(details["tasks"], key=lambda each: (each["generation"], each["rank"])):
        generation = task["generation"]
        nodes[generation, -1 - task["rank"]] = task["node"]
        for rank in range(first.get(generation, 0), first.get(generation, 0) + procs[task["role"]]):
            nodes[generation, rank] = task["node"]
        first[generation] = first.get(generation, 0) + procs[task["role"]]
    return nodes
