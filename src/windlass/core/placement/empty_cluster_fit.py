"""Fit on an empty cluster: whether a gang could ever start, and the nodes that it could use."""

from __future__ import annotations

import numpy as np

from windlass.core.model.gang import Demand, PendingGang, is_placed_elsewhere, minimum_demands
from windlass.core.model.snapshot import NodeTable
from windlass.core.nodes.feasibility import eligibility, room_when_empty
from windlass.core.nodes.node_filters import Mask, cache_answer
from windlass.core.placement.gang_placement import fits

_MAX_KNOWN = 32_768
"""Number of gangs' demands cached by object identity."""


def fits_empty(table: NodeTable, gang: PendingGang) -> bool:
    """Tells whether the gang would fit if no other gang ran."""
    known: dict[int, tuple[tuple[Demand, ...], bool]] | None = table.derived.get("fits by identity")
    if known is None or len(known) >= _MAX_KNOWN:
        known = cache_answer(table, "fits by identity", {})
    pair = known.get(id(gang.demands))  # the demands are kept with the result, so that their id is not reused
    if pair is None:
        pair = known[id(gang.demands)] = gang.demands, _fits_empty(table, gang)
    return pair[1]


def _fits_empty(table: NodeTable, gang: PendingGang) -> bool:
    first = gang.demands[0]
    if first.placed_by:
        return True
    if len(gang.demands) == 1 and first.topology is None and len(first.gpu_types) < 2:
        least = first.min_count or first.count
        return room_when_empty(eligibility(table, first), least) >= least
    key = ("fits", gang.shape)
    found: bool | None = table.derived.get(key)
    return (
        cache_answer(table, key, fits(table.capacity, table, minimum_demands(gang.demands))) if found is None else found
    )


def fits_outside(table: NodeTable, gang: PendingGang, closed: Mask, name: bytes) -> bool:
    """Tells the same without the `closed` nodes (bool[N]); `name` is the mask's bytes, a key of the cache."""
    key = ("fits", gang.shape, name)
    found: bool | None = table.derived.get(key)
    if found is None:
        found = cache_answer(table, key, fits(table.capacity, table, minimum_demands(gang.demands), closed))
    return found


def usable_nodes(table: NodeTable, demands: tuple[Demand, ...]) -> Mask:
    """Returns the nodes that any of the gang's roles could use: none if another scheduler places it."""
    if is_placed_elsewhere(demands):
        return np.zeros(len(table.nodes), dtype=np.bool_)
    masks = [eligibility(table, demand).mask for demand in demands]
    return masks[0] if len(masks) == 1 else np.logical_or.reduce(masks)
