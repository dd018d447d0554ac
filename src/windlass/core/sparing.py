"""Nodes on which only brief gangs fill gaps, while somebody waits who has waited long.

A promise is made by walltimes, most of which are several times too long, and who ends before it may pass: for hours in
which the first gang could have started. Keeping its nodes idle instead costs more than it gives wherever everybody
waits long. So a share of the nodes is kept, those that are empty soonest, and brief gangs may use them: a gang is held
up by those for no longer than they last. The constants are chosen by experiment: docs/design/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from windlass.core.feasibility import Mask
from windlass.core.gang import Pending
from windlass.core.policy import Policy, fills_by_another_order

BRIEF = 7_200_000
"""The longest walltime, in ms, with which a gang may start there."""
_NODES_PER_SPARE = 10
"""Of so many nodes that a gang could use one is kept."""


def has_waited_long(policy: Policy, gang: Pending, now: int) -> bool:
    """Whether nodes are to be kept for a gang that has to wait; `now` in ms."""
    return fills_by_another_order(policy) and 0 < policy.patience <= now - gang.since


def is_brief(gang: Pending) -> bool:
    """Whether it may fill a gap there."""
    return gang.walltime is not None and gang.walltime <= BRIEF


def spared(masks: Sequence[Mask], last_ends: NDArray[np.int64], needed: int) -> Mask | None:
    """bool[N]: a tenth of the nodes that the gang could use, of which those that are free soonest. None: no node.

    `masks`: by role, bool[N]. `last_ends` (int64[N]): when everybody will have left a node. A gang that needs more
    nodes than that (`needed`) is not helped by it.
    """
    rows = np.flatnonzero(np.logical_or.reduce(masks))
    count = len(rows) // _NODES_PER_SPARE
    if count < needed:
        return None
    spare = np.zeros(len(last_ends), dtype=np.bool_)
    spare[rows[np.argsort(last_ends[rows], kind="stable")[:count]]] = True
    return spare
