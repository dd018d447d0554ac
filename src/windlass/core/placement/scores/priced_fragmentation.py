"""Score `prices`: as `fgd`, with a price for parts of GPUs by the loss of the remainder's worth (`shadow_prices`)."""

from __future__ import annotations

from functools import partial

from windlass.core.placement.scores.fragmentation_score import chooser
from windlass.core.placement.scores.node_score import NodeScore

SCORE = NodeScore(
    "as fgd, and GPUs in parts are filled with what fits best",
    partial(chooser, prices=True),
    uses_typical_demands=True,
)
