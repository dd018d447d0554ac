"""Counts of the gangs that request each exclusive resource (host ports, anti-affinity)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

from windlass.core.model.gang import Demand
from windlass.core.nodes.exclusive_rows import exclusive_names

MAX_CONTENDED = 256
"""Exclusive resources that have a column at a time. Each costs 8 bytes a node in every copy of the node table."""
_MAX_CACHED_DEMANDS = 32_768
"""Entries of the cache of exclusive resources, which is emptied when it is full; equal requests share one entry."""


class ExclusiveRequests:
    """By exclusive resource: number of gangs, waiting or running, that request it."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self._counts = dict(counts or {})
        self._is_shared = False
        """A snapshot shares the counts: copy them before the next change."""
        self._names: dict[int, tuple[tuple[Demand, ...], frozenset[str]]] = {}
        """Cache: id(demands) -> (demands, their exclusive resources); keeping demands prevents id reuse."""

    def share(self) -> Mapping[str, int]:
        """Returns the counts, which stay as they are from now on."""
        self._is_shared = True
        return self._counts

    @property
    def contended(self) -> list[str]:
        """Resources that several gangs request: only these need columns, to be released and reserved.

        At most `MAX_CONTENDED`, shared evenly between namespaces; host ports share as one namespace does.
        """
        groups: dict[str, list[str]] = {}
        for name, count in self._counts.items():
            if count > 1:
                groups.setdefault("/".join(name.split("/", 2)[:-1]), []).append(name)
        turns = zip_longest(*groups.values())
        return [name for turn in turns for name in turn if name is not None][:MAX_CONTENDED]

    def count(self, demands: tuple[Demand, ...], sign: int) -> list[str]:
        """Adds (1) or subtracts (-1) a gang with these demands. Returns its resources that are contended now."""
        names = self._names_of(demands)
        if not names:
            return []
        if self._is_shared:
            self._counts, self._is_shared = self._counts.copy(), False
        counts = self._counts
        for name in names:
            counts[name] = counts.get(name, 0) + sign
            if not counts[name]:
                del counts[name]
        return [name for name in names if counts.get(name, 0) > 1]

    def _names_of(self, demands: tuple[Demand, ...]) -> frozenset[str]:
        known = self._names.get(id(demands))
        if known is None:
            if len(self._names) >= _MAX_CACHED_DEMANDS:
                self._names.clear()
            known = self._names[id(demands)] = demands, frozenset(exclusive_names(demands))
        return known[1]
