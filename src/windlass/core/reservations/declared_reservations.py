"""Reservations that people have made: which of them keep a gang out, and from which nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windlass.core.model.gang import PendingGang, RunningGang
from windlass.core.model.reservation import Reservation
from windlass.core.model.snapshot import NodeTable
from windlass.core.nodes.node_filters import Mask


def reservations_against(reservations: Sequence[Reservation], gang: PendingGang) -> list[Reservation]:
    """Returns the reservations that do not admit the gang."""
    return [each for each in reservations if not each.admits(gang.queue, gang.user)]


def nodes_closed_to(
    table: NodeTable, reservations: Sequence[Reservation], gang: PendingGang | RunningGang, start: int, end: int
) -> Mask | None:
    """Returns bool[N]: the nodes that people have reserved for others between `start` and `end`; None: no node."""
    others = [each.nodes for each in reservations if each.keeps_out(gang.queue, gang.user, start, end)]
    if not others:
        return None
    closed = np.zeros(len(table.nodes), dtype=np.bool_)
    closed[[table.row[name] for nodes in others for name in nodes if name in table.row]] = True
    return closed
