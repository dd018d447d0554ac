"""Score `tightest`, the default: no score of its own, so that best fit decides."""

from __future__ import annotations

from windlass.core.placement.scores.node_score import NodeScore

SCORE = NodeScore(
    "the node that is left with least, resource by resource, devices first",
    lambda _policy, _table, _free, _demand, _able: None,
)
