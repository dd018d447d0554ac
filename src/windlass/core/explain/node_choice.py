"""How the nodes of a role are chosen, told one by one: worked out when somebody asks, never kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from windlass.core.model.gang import Demand, demands_as_placed
from windlass.core.model.policy import Policy
from windlass.core.model.snapshot import Amounts, NodeTable
from windlass.core.model.status import Placement
from windlass.core.nodes.feasibility import eligibility, room_per_node
from windlass.core.placement.gang_placement import by_gpu_type
from windlass.core.placement.scores.registry import chooser_of


@dataclass(frozen=True, slots=True)
class NodeCandidate:
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


@dataclass(frozen=True, slots=True)
class RoleChoice:
    """Where the replicas of one role go, and why there."""

    role: str
    nodes: tuple[tuple[str, int], ...]
    """By rank: the nodes, and how many replicas each gets."""
    candidates: tuple[NodeCandidate, ...]
    """For its first replicas, the node that is taken first leading; the second says what decided against it. None if
    it depended on more than single nodes: on other roles, on the network, or on an order that places all anew."""


def role_choices(
    seen: Amounts | None, table: NodeTable, demands: Sequence[Demand], placement: Placement, policy: Policy
) -> tuple[RoleChoice, ...]:
    """How a gang came to its placement, role by role. `seen` (int64[N, R]): what it could use; None: nobody knows."""
    asked = demands_as_placed(tuple(demands), placement)
    free = seen if len(asked) == 1 and asked[0].topology is None else None
    return tuple(
        RoleChoice(
            role=demand.role,
            nodes=tuple(Counter(placement.nodes[demand.role]).items()),
            candidates=() if free is None else node_candidates(free, table, _settled(table, demand, placement), policy),
        )
        for demand in asked
    )


def _settled(table: NodeTable, demand: Demand, placement: Placement) -> Demand:
    """On the model of GPU that it got, if it left that open."""
    rows = [table.row[name] for name in placement.nodes[demand.role]]
    models = (one for (one,) in by_gpu_type([demand]))
    return next((one for one in models if eligibility(table, one).mask[rows].all()), demand)


def node_candidates(
    free: Amounts, table: NodeTable, demand: Demand, policy: Policy, most: int = 10
) -> tuple[NodeCandidate, ...]:
    """The nodes for a role's first replicas, the one that is taken first; at most so many.

    Fewest nodes before all, so those that take most replicas lead; then the score, then the tightest, then the row.
    """
    able = eligibility(table, demand)
    counts = room_per_node(free, able, None, demand.count)
    by = chooser_of(policy, table, free, demand, able)
    rows = np.flatnonzero(counts)
    scores = None if by is None or not len(rows) else by.score(rows)
    left = {table.axis[column]: free[rows, column] for column in able.ranked}
    keys = {"replicas": -counts[rows], **({} if scores is None else {"score": scores}), **left, "row": rows}
    order = np.lexsort([*keys.values()][::-1])[:most].tolist()
    return tuple(
        NodeCandidate(
            node=table.nodes[rows[here]].name,
            replicas=int(counts[rows[here]]),
            score=None if scores is None else int(scores[here]),
            free={name: int(amounts[here]) for name, amounts in left.items()},
            decided_by=next(name for name, key in keys.items() if key[here] != key[order[place - 1]]) if place else "",
        )
        for place, here in enumerate(order)
    )
