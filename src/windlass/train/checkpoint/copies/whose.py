"""Which copies there are, who keeps whose, and from which step all can go on. Pure."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

_NAME = re.compile(r"([0-9a-f]{8})-([a-z0-9=,]+)-step-([0-9]{8,18})-rank-([0-9]+)-of-([0-9]+)")


class Run(NamedTuple):
    """What copies have in common that can go on as one."""

    place: str
    """The checksum of where its checkpoints go, "3f2a90b1"."""
    mesh: str
    world: int


class Copy(NamedTuple):
    """The state of one rank after a step."""

    run: Run
    step: int
    rank: int


def run_of(place: str, mesh: str, world: int) -> Run:
    """Of checkpoints at a place, on a mesh of so many ranks."""
    return Run(f"{zlib.crc32(place.encode()):08x}", mesh, world)


def name_of(copy: Copy) -> str:
    """Of its file."""
    return f"{copy.run.place}-{copy.run.mesh}-step-{copy.step:08d}-rank-{copy.rank}-of-{copy.run.world}"


def copy_of(name: str) -> Copy | None:
    """Inverse of `name_of`; None for anything else, such as what is half written."""
    found = _NAME.fullmatch(name)
    return Copy(Run(found[1], found[2], int(found[5])), int(found[3]), int(found[4])) if found else None


def partners(nodes: Sequence[str]) -> list[int | None]:
    """For each rank the one that keeps its copy: the same place on the next node. None for all on a single node.

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
class Whole:
    """A step of which every rank's copy is somewhere. `holders`: by rank, who reads it; itself where it can."""

    step: int
    holders: tuple[int, ...]


def wholes(seen: Sequence[frozenset[Copy]], run: Run) -> list[Whole]:
    """Steps that all can go on from, newest first. `seen`: by rank, the copies in the memory of its node."""
    by_step: dict[int, dict[int, int]] = {}
    for reader, copies in enumerate(seen):
        for copy in copies:
            if copy.run == run:
                _note(by_step.setdefault(copy.step, {}), copy.rank, reader)
    return [
        Whole(step, tuple(holders[rank] for rank in range(run.world)))
        for step, holders in sorted(by_step.items(), reverse=True)
        if len(holders) == run.world
    ]


def _note(holders: dict[int, int], rank: int, reader: int) -> None:
    """The rank itself rather than anybody else, and else the first."""
    if rank not in holders or reader == rank:
        holders[rank] = reader
