"""Which domains of the network a gang goes to, in two phases: counts bottom-up, then down to the narrowest domains.

Phase one rejects on sums alone. Phase two is `packing.py` (as near as can be) or `spreading.py` (as even as can be).
What comes out says how many replicas go to which rows; which nodes of those rows, `placement.seat` chooses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from windlass.core.domains import Level, Span, level_number, levels
from windlass.core.feasibility import Mask
from windlass.core.job import TopologyRequest
from windlass.core.packing import Counts, Part, Tally, fewest, lay_out, tally, tightest
from windlass.core.snapshot import NodeTable
from windlass.core.spreading import skew, spread

CLUSTER = -1
"""The number of the level above all others: everything is one domain."""


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Where one role goes. Ranks follow rows, so neighbours by rank are neighbours in the network."""

    counts: Counts
    """int64[N]: how many replicas each node may take, none where the request rules it out."""
    parts: tuple[Part, ...]
    """How many go to which rows: by row, no row twice, none empty. Each part has the room, by `counts`."""


def choose(counts: Counts, able: Mask, table: NodeTable, wanted: int, request: TopologyRequest) -> Choice | None:
    """Choose domains for `wanted` (at least one) replicas of a role; None if the request cannot be met now.

    `counts` (int64[N]) is how many each node can take now, at most `wanted` and none that is out of bounds; `able`
    (bool[N]) are the nodes that it could use if they were empty, which makes their domains part of a spread.
    A level that the cluster does not have is no domain of anything: None, unless it is only preferred.
    """
    if int(counts.sum()) < wanted:
        return None
    found = _levels(counts, table)
    number = level_number(table, request.level)
    asked = [] if number is None else [number] if request.required else [*reversed(range(number + 1))]
    for level in asked:
        inside = _named_only(found, table, level)
        if parts := _parts(inside, able, table, wanted, level, request):
            return Choice(inside.room, tuple(parts))
    if request.required:
        return None
    return Choice(counts, tuple(lay_out(found, wanted, found.everything, CLUSTER)))


def candidates(
    counts: Sequence[Counts], table: NodeTable, wanted: Sequence[int], request: TopologyRequest
) -> Iterator[Span]:
    """Domains that might take a gang of several roles whole, judged role by role; placing it there is the proof.

    Tightest first, by the role of which least would be left over; the first of equals. If the level is preferred, the
    wider ones follow, and everything at the end. A gang that is spread or sliced goes anywhere, each role for itself.
    """
    everything = Span(0, len(table.nodes))
    number = level_number(table, request.level)
    if request.spread or request.slice:
        yield everything
        return
    for level in [] if number is None else [number] if request.required else [*reversed(range(number + 1))]:
        where = levels(table)[level]
        left = np.minimum.reduce(
            [np.add.reduceat(mine, where.starts) - count for mine, count in zip(counts, wanted, strict=True)]
        )
        able = np.flatnonzero((left >= 0) & where.named)
        for domain in able[np.argsort(left[able], kind="stable")].tolist():
            yield where.span(domain, everything.stop)
    if not request.required:
        yield everything


def _levels(counts: Counts, table: NodeTable) -> Tally:
    return tally(counts, [level.starts for level in levels(table)])


def _named_only(found: Tally, table: NodeTable, number: int) -> Tally:
    """Without the nodes whose domain at this level nobody declared."""
    level = levels(table)[number]
    if level.named.all():
        return found
    return _levels(found.room * level.named[table.domains[:, number]], table)


def _parts(
    found: Tally, able: Mask, table: NodeTable, wanted: int, level: int, request: TopologyRequest
) -> list[Part] | None:
    if request.spread:
        return _spread(found, able, wanted, levels(table)[level], level, required=request.required)
    if request.slice:
        return _sliced(found, wanted, level, request.slice)
    return _packed(found, wanted, level)


def _packed(found: Tally, wanted: int, level: int) -> list[Part] | None:
    """All in one domain: the tightest. What one node takes goes to the tightest node, wherever it is."""
    if int(found.room.max()) >= wanted:
        return [Part(*found.everything, wanted)]
    domain = tightest(found.sums[level], wanted)
    return None if domain is None else lay_out(found, wanted, found.units(level, domain), level)


def _spread(found: Tally, able: Mask, wanted: int, where: Level, level: int, *, required: bool) -> list[Part] | None:
    """Evenly over the domains that have nodes for it; if that is required, none has two more than another."""
    there = np.flatnonzero(np.logical_or.reduceat(able, where.starts) & where.named)
    numbers = spread(found.sums[level][there], wanted)
    if numbers is None or (required and skew(numbers) > 1):
        return None
    taken = zip(there.tolist(), numbers.tolist(), strict=True)
    return _inside(found, level, [(domain, number) for domain, number in taken if number])


def _sliced(found: Tally, wanted: int, level: int, size: int) -> list[Part] | None:
    """Every slice in one domain of the level, all of them in as few wider domains as can be."""
    slices, wider = found.sums[level] // size, found.starts[:level]
    if wanted % size or int(slices.sum()) < wanted // size:
        return None
    by_domain = tally(slices, [np.searchsorted(found.starts[level], starts) for starts in wider])
    taken: list[tuple[int, int]] = []
    for first, last, number in lay_out(by_domain, wanted // size, by_domain.everything, CLUSTER):
        taken += [(first + domain, of_it * size) for domain, of_it in fewest(slices[first:last], number)]
    return _inside(found, level, sorted(taken))


def _inside(found: Tally, level: int, taken: Sequence[tuple[int, int]]) -> list[Part]:
    """(domain, replicas) of a level, by row, and in each of them as near as can be."""
    return [part for domain, number in taken for part in lay_out(found, number, found.units(level, domain), level)]
