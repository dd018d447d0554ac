"""The cluster as it would be with nothing on it that is not ours: for what can ever run, as pods of others may go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from windlass.backends.kubernetes.client.objects import Node as NodeObject
from windlass.backends.kubernetes.cluster.nodes import View, node
from windlass.backends.kubernetes.cluster.topology_levels import topology
from windlass.core.ledger import Ledger
from windlass.core.model.snapshot import Snapshot


def bare(nodes: Sequence[NodeObject], view: View, singles: frozenset[str]) -> Callable[[Snapshot], Snapshot]:
    """From a snapshot to one of these nodes with nothing on them, its queues as they are. It looks at every node.

    `singles`: what a job asks for of which each node has one (`fitting.singles`), and nobody may have asked before.
    """
    seen = replace(view, singles=view.singles | singles)

    def made(snapshot: Snapshot) -> Snapshot:
        every = [node(each, {}, seen) for each in nodes]
        return Ledger(every, tuple(snapshot.queues.values()), topology(seen.levels)).snapshot()

    return made
