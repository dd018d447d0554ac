"""Which domains of the network a gang goes to, in two phases: counts bottom-up, then down to the narrowest domains.

Phase one rejects on sums alone. Phase two is `packing.py` (as near as can be) or `spreading.py` (as even as can be).
What comes out says how many replicas go to which rows; which nodes of those rows, `placement.seat` chooses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.job import TopologyRequest
from windlass.core.model.resources import MAX_AMOUNT
from windlass.core.model.snapshot import NodeTable
from windlass.core.nodes.node_filters import Mask
from windlass.core.nodes.topology_domains import Level, Span, level_number, levels
from windlass.core.placement.domain_packing import (
    CLUSTER,
    Counts,
    DomainCounts,
    Parts,
    by_row,
    count_by_domain,
    fewest_domains,
    pack_domains,
    part,
    parts,
    tightest_domain,
)
from windlass.core.placement.even_spread import skew, spread

_DOMAINS_TRIED = 16
"""Of each level, for a gang of several roles: each costs a whole placement."""

Room: TypeAlias = tuple[Counts, int]
"""int64[N], what each node has room for, and how much of it is wanted in all."""


@dataclass(frozen=True, slots=True, eq=False)
class DomainChoice:
    """Where one role goes. Ranks follow rows, so neighbours by rank are neighbours in the network."""

    counts: Counts
    """int64[N]: how many replicas each node may take, none where the request rules it out."""
    parts: Parts
    """How many go to which rows, by row. Each part has room for them, by `counts`."""


def choose_domains(
    counts: Counts, able: Mask, table: NodeTable, wanted: int, request: TopologyRequest
) -> DomainChoice | None:
    """Choose domains for `wanted` (at least one) replicas of a role; None if the request cannot be met now.

    `counts` (int64[N]) is how many each node can take now, at most `wanted` and none that is out of bounds; `able`
    (bool[N]) are the nodes that it could use if they were empty, which makes their domains part of a spread.
    A level that the cluster does not have is no domain of anything: None, unless it is only preferred.
    """
    if int(counts.sum()) < wanted or (request.slice and wanted % request.slice):
        return None
    number = level_number(table, request.level)
    for level in _asked(number, required=request.required):
        inside = _tally(counts, table, level)
        found = _parts(inside, able, table, wanted, level, request)
        if found is not None:
            return DomainChoice(inside.room, found)
    if request.required:
        return None
    found = pack_domains(inside := _tally(counts, table, CLUSTER), wanted, inside.everything, CLUSTER)
    return DomainChoice(counts, found)


def candidate_domains(
    roles: Sequence[Room], resources: Sequence[Room], table: NodeTable, request: TopologyRequest
) -> Iterator[Span]:
    """Domains that might take a gang of several roles whole, judged on sums; placing it there is the proof.

    Each role must find room by itself, and each resource suffice for all of them. The tightest first, by the role of
    which least would be left over, the first of equals; at last the roomiest. If the level is only preferred, the wider
    ones follow, and everything at the end. A gang that is spread or sliced goes anywhere, each role for itself.
    """
    everything = Span(0, len(table.nodes))
    number = level_number(table, request.level)
    if request.spread or request.slice:
        yield everything
        return
    for level in _asked(number, required=request.required):
        where = levels(table)[level]
        left = _left(roles, where)
        able = np.flatnonzero((left >= 0) & (_left(resources, where) >= 0) & where.named)
        tightest_first = able[np.argsort(left[able], kind="stable")]
        for domain in [*tightest_first[:_DOMAINS_TRIED].tolist(), *tightest_first[_DOMAINS_TRIED:][-1:].tolist()]:
            yield Span(*where.bounds[domain : domain + 2].tolist())
    if not request.required:
        yield everything


def roomiest_domain(roles: Sequence[Room], table: NodeTable, request: TopologyRequest) -> Span | None:
    """The domain in which the role that finds least room has most left; None: there is no domain of that level."""
    number = level_number(table, request.level)
    if number is None or not (where := levels(table)[number]).named.any():
        return None
    domain = int(np.where(where.named, _left(roles, where), -MAX_AMOUNT).argmax())
    return Span(*where.bounds[domain : domain + 2].tolist())


def _left(rooms: Sequence[Room], where: Level) -> Counts:
    """int64[D]: what each domain has left of that which it has least of; below zero if it lacks any."""
    least: Counts = np.full(len(where.named), MAX_AMOUNT)
    for room, wanted in rooms:
        np.minimum(least, np.add.reduceat(room, where.bounds[:-1]) - wanted, out=least)
    return least


def _asked(number: int | None, *, required: bool) -> Sequence[int]:
    """The levels to try, one after the other."""
    if number is None:
        return ()
    return (number,) if required else range(number, CLUSTER, -1)


def _tally(counts: Counts, table: NodeTable, asked: int) -> DomainCounts:
    """Without nodes whose domain at the asked level nobody declared; a domain that is a node adds nothing below it."""
    known = levels(table)
    if asked != CLUSTER and not known[asked].named.all():
        counts = counts * known[asked].named[table.domains[:, asked]]
    looked_at = [level.bounds for n, level in enumerate(known) if n <= asked or len(level.bounds) <= len(counts)]
    return count_by_domain(counts, looked_at)


def _parts(
    found: DomainCounts, able: Mask, table: NodeTable, wanted: int, level: int, request: TopologyRequest
) -> Parts | None:
    if request.spread:
        there = np.logical_or.reduceat(able, found.bounds[level][:-1]) & levels(table)[level].named
        return _spread(found, np.flatnonzero(there), wanted, level, required=request.required)
    if request.slice:
        return _sliced(found, wanted, level, request.slice)
    return _packed(found, wanted, level)


def _packed(found: DomainCounts, wanted: int, level: int) -> Parts | None:
    """All in one domain: the tightest. What one node takes goes to the tightest node, wherever it is."""
    if int(found.room.max()) >= wanted:
        return part(found.everything, wanted)
    domain = tightest_domain(found.sums[level], wanted)
    return None if domain is None else pack_domains(found, wanted, found.units(level, domain), level)


def _spread(found: DomainCounts, domains: NDArray[np.intp], wanted: int, level: int, *, required: bool) -> Parts | None:
    """Evenly over these domains; if that is required, none has two more than another."""
    numbers = spread(found.sums[level][domains], wanted)
    if numbers is None or (required and skew(numbers) > 1):
        return None
    return _inside(found, level, domains[numbers > 0], numbers[numbers > 0])


def _sliced(found: DomainCounts, wanted: int, level: int, size: int) -> Parts | None:
    """Every slice in one domain of the level, all of them in as few wider domains as can be."""
    slices, left = found.sums[level] // size, found.sums[level] % size
    if int(slices.sum()) < wanted // size:
        return None
    by_domain = count_by_domain(slices, [np.searchsorted(found.bounds[level], wider) for wider in found.bounds[:level]])
    taken = np.zeros_like(slices)
    for first, last, number in pack_domains(by_domain, wanted // size, by_domain.everything, CLUSTER).tolist():
        domains, numbers = fewest_domains(slices[first:last], number, left[first:last])
        taken[first + domains] = numbers * size
    domains = np.flatnonzero(taken)
    return _inside(found, level, domains, taken[domains])


def _inside(found: DomainCounts, level: int, domains: NDArray[np.intp], numbers: Counts) -> Parts:
    """So many in each of these domains of a level, and there as near as can be."""
    whole = (numbers == found.sums[level][domains]) | (level + 1 == len(found.bounds))
    laid = [
        pack_domains(found, number, found.units(level, domain), level)
        for domain, number in zip(domains[~whole].tolist(), numbers[~whole].tolist(), strict=True)
    ]
    return by_row(np.concatenate((parts(found, level, domains[whole], numbers[whole]), *laid)))
