"""Replicas as near to each other as can be: the tightest domain that takes them all, and in it the narrowest ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from windlass.core.domains import Span, Starts

Counts = NDArray[np.int64]

NOWHERE = np.iinfo(np.int64).max
"""More than any domain has."""


class Part(NamedTuple):
    """So many replicas on the rows of a span."""

    start: int
    stop: int
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """How much finds room, unit by unit (nodes, by row), added up per domain of each level, widest first."""

    room: Counts
    starts: tuple[Starts, ...]
    """Per level, int[D]: the first unit of each domain."""
    sums: tuple[Counts, ...]
    """Per level, int64[D]."""

    @property
    def everything(self) -> Span:
        """All units."""
        return Span(0, len(self.room))

    def within(self, level: int, span: Span) -> Span:
        """Which domains of a level a span of units has; it begins and ends where they do."""
        first, last = np.searchsorted(self.starts[level], span)
        return Span(int(first), int(last))

    def units(self, level: int, domain: int) -> Span:
        """The units of one domain."""
        starts = self.starts[level]
        return Span(int(starts[domain]), int(starts[domain + 1]) if domain + 1 < len(starts) else len(self.room))


def tally(room: Counts, starts: Sequence[Starts]) -> Tally:
    """Phase one: count bottom-up. At least one unit."""
    return Tally(room, tuple(starts), tuple(np.add.reduceat(room, first) for first in starts))


def tightest(sums: Counts, wanted: int) -> int | None:
    """The domain with least room that takes `wanted`, the first of equals; None: none does."""
    able = np.where(sums >= wanted, sums, NOWHERE)
    domain = int(able.argmin())
    return domain if able[domain] < NOWHERE else None


def lay_out(found: Tally, wanted: int, span: Span, level: int) -> list[Part]:
    """Phase two: descend from `span`, a domain of `level` (-1: everything) that has room for all, by row.

    Below it, the narrowest level of which one domain takes all of them; what no single domain takes fills the largest
    whole, and the last of them is the tightest that takes the rest. What one unit takes is left to its whole domain.
    """
    if int(found.room[span.start : span.stop].max()) >= wanted:
        return [Part(*span, wanted)]
    # 1. the narrowest single domain
    for lower in reversed(range(level + 1, len(found.starts))):
        first, last = found.within(lower, span)
        domain = tightest(found.sums[lower][first:last], wanted)
        if domain is not None:
            level, span = lower, found.units(lower, first + domain)
            break
    # 2. the fewest domains one level below
    if level + 1 == len(found.starts):
        return [Part(*span, wanted)]
    first, last = found.within(level + 1, span)
    *whole, (tail, rest) = fewest(found.sums[level + 1][first:last], wanted)
    full = [Part(*found.units(level + 1, first + domain), number) for domain, number in whole]
    return sorted([*full, *lay_out(found, rest, found.units(level + 1, first + tail), level + 1)])


def fewest(sums: Counts, wanted: int) -> list[tuple[int, int]]:
    """(domain, number) of the largest, used up whole, and last the tightest that takes what remains.

    Of equals the first. Together they have room for `wanted`, which is at least one.
    """
    falling = np.argsort(-sums, kind="stable")
    whole = falling[: int(np.searchsorted(sums[falling].cumsum(), wanted))]
    rest = wanted - int(sums[whole].sum())
    others = np.where(sums >= rest, sums, NOWHERE)
    others[whole] = NOWHERE
    return [*((domain, int(sums[domain])) for domain in whole.tolist()), (int(others.argmin()), rest)]
