"""Packs replicas into the tightest topology domain that has room for all, within it into the narrowest possible ones.

Room is the number of replicas that fit. `topology_placement` calls the two phases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from windlass.core.nodes.topology_domains import Bounds, Span

Counts = NDArray[np.int64]
Parts = NDArray[np.int64]
"""int64[K, 3]: rows `start` to `stop - 1` take `number` replicas. No row is in two parts, and no part is empty."""

CLUSTER = -1
"""Number of the level above all others, at which the whole cluster is one domain."""
_EXCLUDED = np.iinfo(np.int64).max
"""Room that marks a domain as excluded from a minimum: more than any domain has."""


@dataclass(frozen=True, slots=True, eq=False)
class DomainCounts:
    """Room per unit (a row of the node table, or a domain), and its sum per domain of each level, widest first."""

    room: Counts
    bounds: tuple[Bounds, ...]
    sums: tuple[Counts, ...]
    """Per level, int64[D] for its D domains."""

    @property
    def everything(self) -> Span:
        """All units."""
        return Span(0, len(self.room))

    def within(self, level: int, span: Span) -> Span:
        """Returns the domains of a level that lie in a span of units."""
        first, last = np.searchsorted(self.bounds[level], span)
        return Span(int(first), int(last))

    def units(self, level: int, domain: int) -> Span:
        """Returns the units of one domain."""
        start, stop = self.bounds[level][domain : domain + 2].tolist()
        return Span(start, stop)


def count_by_domain(room: Counts, bounds: Sequence[Bounds]) -> DomainCounts:
    """Phase one: sums the room of the units, one at least, per domain."""
    return DomainCounts(room, tuple(bounds), tuple(np.add.reduceat(room, each[:-1]) for each in bounds))


def tightest_domain(sums: Counts, wanted: int) -> int | None:
    """Returns the domain with the least room that still has `wanted`, the first of equals; None: none has."""
    able = np.where(sums >= wanted, sums, _EXCLUDED)
    domain = int(able.argmin())
    return domain if able[domain] < _EXCLUDED else None


def pack_domains(found: DomainCounts, wanted: int, span: Span, level: int) -> Parts:
    """Phase two: descends from `span`, a domain of `level` that has room for all replicas; sorted by row.

    Chooses the narrowest level at which one domain has room for all replicas. If there is none, fills the largest
    domains one level below completely and packs the rest into the tightest domain with room for it. If one unit has
    room for all replicas, the span is not divided.
    """
    deepest = len(found.bounds) - 1
    if level == deepest or int(found.room[span.start : span.stop].max()) >= wanted:
        return part(span, wanted)
    # 1. the narrowest single domain
    for lower in range(deepest, level, -1):
        first, last = found.within(lower, span)
        domain = tightest_domain(found.sums[lower][first:last], wanted)
        if domain is not None:
            level, span = lower, found.units(lower, first + domain)
            break
    if level == deepest:
        return part(span, wanted)
    # 2. the fewest domains one level below
    level += 1
    first, last = found.within(level, span)
    domains, numbers = fewest_domains(found.sums[level][first:last], wanted)
    full = parts(found, level, domains[:-1] + first, numbers[:-1])
    tail = pack_domains(found, int(numbers[-1]), found.units(level, first + int(domains[-1])), level)
    return by_row(np.concatenate((full, tail)))


def fewest_domains(sums: Counts, wanted: int, left: Counts | None = None) -> tuple[NDArray[np.intp], Counts]:
    """Returns domains and the number for each: the largest are filled, the last is the tightest with room for the rest.

    Of domains with equal room the one with the least `left` wins (room that `sums` does not count; int64[D], default
    0), then the first. All domains together have room for `wanted`, which is at least one.
    """
    left = np.zeros_like(sums) if left is None else left
    falling = np.lexsort((left, -sums))
    whole = falling[: int(np.searchsorted(sums[falling].cumsum(), wanted))]
    rest = wanted - int(sums[whole].sum())
    others = np.where(sums >= rest, sums, _EXCLUDED)
    others[whole] = _EXCLUDED
    equals = np.flatnonzero(others == others.min())
    return np.append(whole, equals[left[equals].argmin()]), np.append(sums[whole], rest)


def part(span: Span, number: int) -> Parts:
    """Returns one part."""
    return np.array([[span.start, span.stop, number]], dtype=np.int64)


def parts(found: DomainCounts, level: int, domains: NDArray[np.intp], numbers: Counts) -> Parts:
    """Returns one part for each of these domains."""
    return np.stack((found.bounds[level][domains], found.bounds[level][domains + 1], numbers), axis=1)


def by_row(some: Parts) -> Parts:
    """Returns the parts in the order of rows."""
    ordered: Parts = some[np.argsort(some[:, 0])]
    return ordered
