"""The cluster without pods, to check which jobs can ever run: foreign pods may end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windlass.backends.kubernetes.client.objects import Node as NodeObject
from windlass.backends.kubernetes.cluster.nodes import NodeConversion, node
from windlass.backends.kubernetes.cluster.topology_levels import topology
from windlass.core.ledger import Ledger
from windlass.core.model.snapshot import Snapshot


def snapshot_emptier(nodes: Sequence[NodeObject], view: NodeConversion) -> Callable[[Snapshot], Snapshot]:
    """Returns a function from a snapshot to one of these nodes with nothing on them and the same queues."""

    def made(snapshot: Snapshot) -> Snapshot:
        every = [node(each, {}, view) for each in nodes]
        return Ledger(every, tuple(snapshot.queues.values()), topology(view.levels)).snapshot()

    return made
