"""How the nodes of a role are chosen, told one by one: worked out when somebody asks, never kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from windlass.core.feasibility import eligibility, room_per_node
from windlass.core.gang import Demand
from windlass.core.policy import Policy
from windlass.core.scoring import chooser
from windlass.core.snapshot import Amounts, NodeTable


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that would do, at its place in the order in which nodes are taken."""

    node: str
    replicas: int
    """As many as it could take of those that are wanted."""
    score: int | None
    """Of the policy's scoring, the smaller the better; None: it has none for such a role."""
    free: Mapping[str, int]
    """What it has now, of each resource; the one that has less is tighter, as all would give the same."""
    decided_by: str
    """What sets it behind the candidate before: replicas, score, the resource that it has more of, or row. "" for
    the first."""


def candidates(
    free: Amounts, table: NodeTable, demand: Demand, policy: Policy, most: int = 10
) -> tuple[Candidate, ...]:
    """The nodes for a role's first replicas, the one that is taken first; at most so many.

    Fewest nodes before all, so those that take most replicas lead; then the score, then the tightest, then the row.
    """
    able = eligibility(table, demand)
    counts = room_per_node(free, able, None, demand.count)
    by = chooser(policy, table, free, demand, able)
    rows = np.flatnonzero(counts)
    scores = None if by is None or not len(rows) else by.score(rows)
    left = {table.axis[column]: free[rows, column] for column in able.ranked}
    keys = {"replicas": -counts[rows], **({} if scores is None else {"score": scores}), **left, "row": rows}
    order = np.lexsort([*keys.values()][::-1])[:most].tolist()
    return tuple(
        Candidate(
            node=table.nodes[rows[here]].name,
            replicas=int(counts[rows[here]]),
            score=None if scores is None else int(scores[here]),
            free={name: int(amounts[here]) for name, amounts in left.items()},
            decided_by=next(name for name, key in keys.items() if key[here] != key[order[place - 1]]) if place else "",
        )
        for place, here in enumerate(order)
    )
