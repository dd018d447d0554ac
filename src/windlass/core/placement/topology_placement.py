"""Choice of the topology domains of a gang in two phases: counts bottom-up, then a descent to the narrowest domains.

Phase one rejects on sums alone. Phase two is `domain_packing` (as close as possible) or `even_spread` (as even as
possible). The result says how many replicas go to which rows; `node_selection` selects the nodes within those.
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
from windlass.core.nodes.topology_domains import Level, Span, level_number, levels_of
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

_MAX_DOMAINS = 16
"""Per level, for a gang of several roles: each domain costs a whole placement."""

Room: TypeAlias = tuple[Counts, int]
"""int64[N], the room on each node, and the total amount wanted."""


@dataclass(frozen=True, slots=True, eq=False)
class DomainChoice:
    """The domains of one role. Ranks follow rows, so neighbours by rank are neighbours in the network."""

    counts: Counts
    """int64[N]: maximum number of replicas per node; 0 where the request excludes the node."""
    parts: Parts
    """Number of replicas per range of rows, by row. Each part has room for them, by `counts`."""


def choose_domains(
    counts: Counts, able: Mask, table: NodeTable, wanted: int, request: TopologyRequest
) -> DomainChoice | None:
    """Chooses domains for `wanted` (at least one) replicas of a role; None if the request cannot be met now.

    `counts` (int64[N]) are the replicas that fit on each node now, at most `wanted`, and 0 on closed nodes; `able`
    (bool[N]) are the nodes that it could use if they were empty, whose domains count for a spread.
    The result is None for a level that the cluster lacks, unless the level is only preferred.
    """
    if int(counts.sum()) < wanted or (request.slice and wanted % request.slice):
        return None
    number = level_number(table, request.level)
    for level in _levels_to_try(number, required=request.required):
        inside = _count_domains(counts, table, level)
        found = _parts(inside, able, table, wanted, level, request)
        if found is not None:
            return DomainChoice(inside.room, found)
    if request.required:
        return None
    found = pack_domains(inside := _count_domains(counts, table, CLUSTER), wanted, inside.everything, CLUSTER)
    return DomainChoice(counts, found)


def candidate_domains(
    roles: Sequence[Room], resources: Sequence[Room], table: NodeTable, request: TopologyRequest
) -> Iterator[Span]:
    """Yields domains that may take a gang of several roles whole, judged by sums; only a placement there proves it.

    Each role must fit by itself, and each resource suffice for all of them. The tightest first, by the role with the
    least left over, the first of equals; last the roomiest. If the level is only preferred, wider levels follow, and
    finally the whole cluster. A gang that is spread or sliced may go anywhere, each role by itself.
    """
    everything = Span(0, len(table.nodes))
    number = level_number(table, request.level)
    if request.spread or request.slice:
        yield everything
        return
    for level in _levels_to_try(number, required=request.required):
        where = levels_of(table)[level]
        left = _left(roles, where)
        able = np.flatnonzero((left >= 0) & (_left(resources, where) >= 0) & where.has_name)
        tightest_first = able[np.argsort(left[able], kind="stable")]
        for domain in [*tightest_first[:_MAX_DOMAINS].tolist(), *tightest_first[_MAX_DOMAINS:][-1:].tolist()]:
            yield Span(*where.bounds[domain : domain + 2].tolist())
    if not request.required:
        yield everything


def roomiest_domain(roles: Sequence[Room], table: NodeTable, request: TopologyRequest) -> Span | None:
    """Returns the domain in which the most constrained role has most left; None: that level has no domain."""
    number = level_number(table, request.level)
    if number is None or not (where := levels_of(table)[number]).has_name.any():
        return None
    domain = int(np.where(where.has_name, _left(roles, where), -MAX_AMOUNT).argmax())
    return Span(*where.bounds[domain : domain + 2].tolist())


def _left(rooms: Sequence[Room], where: Level) -> Counts:
    """Returns int64[D]: what each domain has left of its scarcest requirement; negative if it lacks any."""
    least: Counts = np.full(len(where.has_name), MAX_AMOUNT)
    for room, wanted in rooms:
        np.minimum(least, np.add.reduceat(room, where.bounds[:-1]) - wanted, out=least)
    return least


def _levels_to_try(number: int | None, *, required: bool) -> Sequence[int]:
    """Returns the levels to try, in order."""
    if number is None:
        return ()
    return (number,) if required else range(number, CLUSTER, -1)


def _count_domains(counts: Counts, table: NodeTable, asked: int) -> DomainCounts:
    """Sums counts per domain, without nodes that declare no domain at the requested level.

    Levels below it whose domains are single nodes are left out: they add nothing.
    """
    known = levels_of(table)
    if asked != CLUSTER and not known[asked].has_name.all():
        counts = counts * known[asked].has_name[table.domains[:, asked]]
    counted = [level.bounds for n, level in enumerate(known) if n <= asked or len(level.bounds) <= len(counts)]
    return count_by_domain(counts, counted)


def _parts(
    found: DomainCounts, able: Mask, table: NodeTable, wanted: int, level: int, request: TopologyRequest
) -> Parts | None:
    if request.spread:
        there = np.logical_or.reduceat(able, found.bounds[level][:-1]) & levels_of(table)[level].has_name
        return _spread(found, np.flatnonzero(there), wanted, level, required=request.required)
    if request.slice:
        return _sliced(found, wanted, level, request.slice)
    return _packed(found, wanted, level)


def _packed(found: DomainCounts, wanted: int, level: int) -> Parts | None:
    """Returns parts in one domain, the tightest; if one node takes all, the tightest node anywhere."""
    if int(found.room.max()) >= wanted:
        return part(found.everything, wanted)
    domain = tightest_domain(found.sums[level], wanted)
    return None if domain is None else pack_domains(found, wanted, found.units(level, domain), level)


def _spread(found: DomainCounts, domains: NDArray[np.intp], wanted: int, level: int, *, required: bool) -> Parts | None:
    """Returns parts spread evenly over these domains; if required, the difference is at most one."""
    numbers = spread(found.sums[level][domains], wanted)
    if numbers is None or (required and skew(numbers) > 1):
        return None
    return _parts_in_domains(found, level, domains[numbers > 0], numbers[numbers > 0])


def _sliced(found: DomainCounts, wanted: int, level: int, size: int) -> Parts | None:
    """Returns parts with every slice in one domain of the level, and all slices in the fewest wider domains."""
    slices, left = found.sums[level] // size, found.sums[level] % size
    if int(slices.sum()) < wanted // size:
        return None
    by_domain = count_by_domain(slices, [np.searchsorted(found.bounds[level], wider) for wider in found.bounds[:level]])
    taken = np.zeros_like(slices)
    for first, last, number in pack_domains(by_domain, wanted // size, by_domain.everything, CLUSTER).tolist():
        domains, numbers = fewest_domains(slices[first:last], number, left[first:last])
        taken[first + domains] = numbers * size
    domains = np.flatnonzero(taken)
    return _parts_in_domains(found, level, domains, taken[domains])


def _parts_in_domains(found: DomainCounts, level: int, domains: NDArray[np.intp], numbers: Counts) -> Parts:
    """Returns the parts for so many replicas in each of these domains of a level, packed within each."""
    whole = (numbers == found.sums[level][domains]) | (level + 1 == len(found.bounds))
    packed = [
        pack_domains(found, number, found.units(level, domain), level)
        for domain, number in zip(domains[~whole].tolist(), numbers[~whole].tolist(), strict=True)
    ]
    return by_row(np.concatenate((parts(found, level, domains[whole], numbers[whole]), *packed)))
