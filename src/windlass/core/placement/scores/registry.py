"""Registry of node scores by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from windlass.core.model.gang import Demand
from windlass.core.model.policy import Policy
from windlass.core.model.snapshot import Amounts, NodeTable
from windlass.core.nodes.feasibility import Eligibility
from windlass.core.placement.scores import fragmentation_gradient, priced_fragmentation, tightest
from windlass.core.placement.scores.node_score import NodeChooser, NodeScore

SCORES: Mapping[str, NodeScore] = MappingProxyType(
    {
        "tightest": tightest.SCORE,
        "fgd": fragmentation_gradient.SCORE,
        "prices": priced_fragmentation.SCORE,
    }
)


def chooser_of(
    policy: Policy, table: NodeTable, free: Amounts, demand: Demand, able: Eligibility
) -> NodeChooser | None:
    """Returns the chooser of the policy's score for this demand; None: the tightest node is taken."""
    return SCORES[policy.scoring].chooser(policy, table, free, demand, able)
