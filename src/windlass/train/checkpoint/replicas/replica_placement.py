"""Decides which rank stores each replica, and from which steps all ranks can resume. Pure."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

_NAME = re.compile(r"([0-9a-f]{8})-([a-z0-9=,]+)-step-([0-9]{8,18})-rank-([0-9]+)-of-([0-9]+)")


class RunKey(NamedTuple):
    """Properties that replicas must share to be resumed from together."""

    location: str
    """Checksum of the run's checkpoint location, "3f2a90b1"."""
    mesh: str
    world: int


class Replica(NamedTuple):
    """The state of one rank after a step."""

    run: RunKey
    step: int
    rank: int


def run_key(location: str, mesh: str, world: int) -> RunKey:
    """Return the key of a run with checkpoints at `location`, on a mesh of `world` ranks."""
    return RunKey(f"{zlib.crc32(location.encode()):08x}", mesh, world)


def file_name(replica: Replica) -> str:
    """Return the file name of a replica."""
    return (
        f"{replica.run.location}-{replica.run.mesh}-step-{replica.step:08d}-rank-{replica.rank}-of-{replica.run.world}"
    )


def parse_file_name(name: str) -> Replica | None:
    """Parse a file name; None for any other file, such as an incomplete one."""
    found = _NAME.fullmatch(name)
    return Replica(RunKey(found[1], found[2], int(found[5])), int(found[3]), int(found[4])) if found else None


def partner_ranks(nodes: Sequence[str]) -> list[int | None]:
    """Return for each rank the rank that stores its replica: the same position on the next node. None on a single node.

    `nodes`: the node of each rank.
    """
    names = list(dict.fromkeys(nodes))
    if len(names) < 2:
        return [None] * len(nodes)
    ranks = {name: [rank for rank, node in enumerate(nodes) if node == name] for name in names}
    following = dict(zip(names, [*names[1:], names[0]], strict=True))
    found: list[int | None] = []
    for rank, node in enumerate(nodes):
        there = ranks[following[node]]
        found.append(there[ranks[node].index(rank) % len(there)])
    return found


@dataclass(frozen=True, slots=True)
class CompleteStep:
    """A step of which every rank's replica exists. `holders`: by rank, the rank that reads it; itself if possible."""

    step: int
    holders: tuple[int, ...]


def complete_steps(seen: Sequence[frozenset[Replica]], run: RunKey) -> list[CompleteStep]:
    """Return steps that all ranks can resume from, newest first. `seen`: by rank, the replicas in its node's memory."""
    by_step: dict[int, dict[int, int]] = {}
    for reader, replicas in enumerate(seen):
        for replica in replicas:
            if replica.run == run:
                _note_holder(by_step.setdefault(replica.step, {}), replica.rank, reader)
    return [
        CompleteStep(step, tuple(holders[rank] for rank in range(run.world)))
        for step, holders in sorted(by_step.items(), reverse=True)
        if len(holders) == run.world
    ]


def _note_holder(holders: dict[int, int], rank: int, reader: int) -> None:
    """Record a reader: the rank itself if possible, else the first one."""
    if rank not in holders or reader == rank:
        holders[rank] = reader
