"""Maps the ranks of a job to nodes, attempt by attempt, from the job's details."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from windlass.cli.errors import UsageError
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


def count_ranks(details: Mapping[str, Any]) -> int:
    """Returns the number of ranks that a job may have: as requested, and at its largest attempt."""
    roles = (details.get("spec") or {}).get("roles", ())
    requested: int = sum((role["max_replicas"] or role["replicas"]) * role["procs"] for role in roles)
    return max(requested, 1 + max((rank for _, rank in nodes_of_ranks(details)), default=-1))


def check_ranks(job_id: str, selected: Collection[int], count: int) -> None:
    """Raises UsageError with the existing ranks if a job with `count` ranks has none of the selected ones."""
    if count == 0 or not selected or min(selected) < count:
        return
    missing = f"rank {min(selected)}" if len(selected) == 1 else f"ranks {min(selected)}-{max(selected)}"
    existing = f"ranks are 0-{count - 1}" if count > 1 else "only rank is 0"
    raise UsageError(f"{job_id} has no {missing}\nits {existing}")
