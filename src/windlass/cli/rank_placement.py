"""Which node each rank of a job is on, by attempt, as its story tells it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.core.model.job import Launcher

RankNodes = dict[tuple[int, int], str]
"""By (generation, rank); agents' own words have ranks below 0, as `worlds.local.logs` counts them."""


def nodes_of_ranks(story: Mapping[str, Any]) -> RankNodes:
    """A task is a rank or, where agents start the ranks, the agent of a replica."""
    spec = story.get("spec") or {}
    if spec.get("launcher") != Launcher.AGENT:
        return {(task["generation"], task["rank"]): task["node"] for task in story["tasks"]}
    procs = {role["name"]: role["procs"] for role in spec["roles"]}
    nodes: RankNodes = {}
    first: dict[int, int] = {}
    for task in sorted(story["tasks"], key=lambda each: (each["generation"], each["rank"])):
        generation = task["generation"]
        nodes[generation, -1 - task["rank"]] = task["node"]
        for rank in range(first.get(generation, 0), first.get(generation, 0) + procs[task["role"]]):
            nodes[generation, rank] = task["node"]
        first[generation] = first.get(generation, 0) + procs[task["role"]]
    return nodes
