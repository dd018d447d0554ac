"""Score `prices`: as `fgd`, with a price for parts of GPUs by the loss of the remainder's worth (`shadow_prices`)."""

from __future__ import annotations

from windlass.core.model.gang import Demand
from windlass.core.model.policy import Policy
from windlass.core.model.snapshot import Amounts, NodeTable
from windlass.core.nodes.feasibility import Eligibility
from windlass.core.placement.scores.node_score import NodeChooser, NodeScore


def _chooser(policy: Policy, table: NodeTable, free: Amounts, demand: Demand, able: Eligibility) -> NodeChooser | None:
    from windlass.core.placement.scores import fragmentation_score  # noqa: PLC0415 - most policies do not need it

    return fragmentation_score.chooser(policy, table, free, demand, able, prices=True)


SCORE = NodeScore(
    "as fgd, and GPUs in parts are filled with what fits best",
    _chooser,
    uses_typical_demands=True,
)
