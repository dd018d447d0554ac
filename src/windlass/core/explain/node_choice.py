"""Explanation of the choice of a role's nodes, candidate by candidate; computed on request and never stored."""

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
    """A possible node, in the order in which nodes are taken."""

    node: str
    replicas: int
    """Number of the wanted replicas that fit on it."""
    score: int | None
    """Score under the policy, the smaller the better; None: there is no score for such a role."""
    free: Mapping[str, int]
    """Free amount of each resource; less is tighter, as all nodes would give the same amount."""
    decided_by: str
    """The key by which it sorts after the candidate before: replicas, score, a resource that it has more of, or row. ""
    for the first.
    """


@dataclass(frozen=True, slots=True)
class RoleChoice:
    """The nodes of the replicas of one role, and the reason for their choice."""

    role: str
    nodes: tuple[tuple[str, int], ...]
    """By rank: the nodes, and the number of replicas on each."""
    candidates: tuple[NodeCandidate, ...]
    """Candidates for its first replicas, the chosen node first; the second names the deciding key. Empty if the choice
    depended on more than single nodes: on other roles, on the network, or on an order that places all gangs again.
    """


def role_choices(
    seen: Amounts | None, table: NodeTable, demands: Sequence[Demand], placement: Placement, policy: Policy
) -> tuple[RoleChoice, ...]:
    """Explains a gang's placement by role. `seen` (int64[N, R]): capacity free for it; None: not recorded."""
    requested = demands_as_placed(tuple(demands), placement)
    free = seen if len(requested) == 1 and requested[0].topology is None else None
    return tuple(
        RoleChoice(
            role=demand.role,
            nodes=tuple(Counter(placement.nodes[demand.role]).items()),
            candidates=()
            if free is None
            else node_candidates(free, table, _with_placed_model(table, demand, placement), policy),
        )
        for demand in requested
    )


def _with_placed_model(table: NodeTable, demand: Demand, placement: Placement) -> Demand:
    """Returns the demand for the GPU model that it got, if it left the model open."""
    rows = [table.row[name] for name in placement.nodes[demand.role]]
    models = (one for (one,) in by_gpu_type([demand]))
    return next((one for one in models if eligibility(table, one).mask[rows].all()), demand)


def node_candidates(
    free: Amounts, table: NodeTable, demand: Demand, policy: Policy, most: int = 10
) -> tuple[NodeCandidate, ...]:
    """Returns at most `most` candidate nodes for a role's first replicas, the first choice first.

    The number of nodes counts first, so nodes with room for most replicas lead; then the score, tightness, and the row.
    """
    able = eligibility(table, demand)
    counts = room_per_node(free, able, None, demand.count)
    by = chooser_of(policy, table, free, demand, able)
    rows = np.flatnonzero(counts)
    scores = None if by is None or not len(rows) else by.score(rows)
    left = {table.resource_names[column]: free[rows, column] for column in able.compared_columns}
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
