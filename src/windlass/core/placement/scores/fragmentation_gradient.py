"""Score `fgd`: fragmentation gradient descent (Weng et al., USENIX ATC 2023)."""

from __future__ import annotations

from functools import partial

from windlass.core.placement.scores.fragmentation_score import chooser
from windlass.core.placement.scores.node_score import NodeScore

SCORE = NodeScore(
    "where fragmentation over the typical demands grows least, then best fit",
    partial(chooser, prices=False),
    uses_typical_demands=True,
)
