"""The interface of a node score: an integer per node, the smaller the better.

Among nodes of equal score the tightest goes first (`core.placement.node_selection`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from windlass.core.model.gang import Demand
from windlass.core.model.policy import Policy
from windlass.core.model.snapshot import Amounts, NodeTable
from windlass.core.nodes.device_assignment import Choose
from windlass.core.nodes.feasibility import Counts, Eligibility
from windlass.core.placement.node_selection import Rows


class NodeChooser(Protocol):
    """Ranks nodes, and the GPUs of one node, for one kind of demand and one state of the nodes."""

    def score(self, rows: Rows) -> Counts:
        """int64[K]: score of each of these rows."""

    def on(self, row: int) -> Choose:
        """Returns the function that chooses the GPU of this node from which a part is taken."""


ChooserFunction: TypeAlias = Callable[[Policy, NodeTable, Amounts, Demand, Eligibility], NodeChooser | None]
"""Creates a chooser; None: the score does not apply to such a demand, and the tightest node is taken."""


@dataclass(frozen=True, slots=True)
class NodeScore:
    """One score of nodes."""

    description: str
    """One phrase for help texts."""
    chooser: ChooserFunction
    uses_typical_demands: bool = False
    """It needs `Policy.typical_demands`, which a ledger counts if the policy does not give them."""
