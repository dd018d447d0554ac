"""Decides when a node is lost: ready, unreachable for a grace, then lost.

A node that its backend declares `lost` (deleted, or out of service) is lost at once. A node that is merely not ready is
unreachable: nothing new starts there, and what runs there goes on. It is lost after the grace of each gang on it.

Guard: when many nodes become unreachable at once, the fault is more likely in the network or the control plane than in
the nodes. Then none of them is lost until the outage is over, and their grace starts afresh. The threshold is that of
Kubernetes' node lifecycle controller (`--unhealthy-zone-threshold`): at least 3 nodes and more than 55 % of all. Nodes
count that became unreachable within `UNREACHABLE_GRACE_MS` of the last one; older ones are neither here nor in "all".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from windlass.core.model.job import Job
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue

UNREACHABLE_GRACE_MS = 300_000
"""Default of `Job.unreachable_grace`: Kubernetes tolerates unreachable nodes as long (DefaultTolerationSeconds)."""
OUTAGE_NODES = 3
OUTAGE_PERCENT = 55


def grace_of(job: Job, queue: Queue | None) -> int:
    """Time in ms for which a node of the job may be unreachable: the job's, else its queue's, else the default."""
    graces = (job.unreachable_grace, queue.unreachable_grace if queue else None)
    return next((grace for grace in graces if grace is not None), UNREACHABLE_GRACE_MS)


class HeldNodes(NamedTuple):
    """The nodes of a gang, each once, and its grace in ms."""

    gang: str
    nodes: Sequence[str]
    grace: int


class NodeMonitor:
    """The unreachable nodes and, once there were many at once, the end of that outage. Times are ms."""

    def __init__(self) -> None:
        self._unreachable: dict[str, int] = {}
        """By name: since when."""
        self._in_outage: frozenset[str] = frozenset()
        self._outage_end = 0

    def observe(self, nodes: Iterable[Node], now: int) -> None:
        """Takes note of the nodes as they are now."""
        nodes = list(nodes)
        known = self._unreachable
        self._unreachable = {
            node.name: _unreachable_since(node, known, now) for node in nodes if not (node.ready or node.lost)
        }
        before, self._in_outage = self._in_outage, self._find_outage(len(nodes))
        if before and not self._in_outage:
            self._outage_end = now

    def is_unreachable(self, name: str) -> bool:
        """Whether a node is not ready and not lost."""
        return name in self._unreachable

    def lost_at(self, name: str, grace: int) -> int | None:
        """Time in ms from which an unreachable node is lost to a gang; None: it is not, as things are."""
        since = self._unreachable.get(name)
        if since is None or name in self._in_outage:
            return None
        return max(since, self._outage_end) + grace

    def find_lost(self, gangs: Iterable[HeldNodes], now: int) -> tuple[list[tuple[str, str]], int | None]:
        """The (gang, node) pairs that are lost by now, and the time in ms at which to look again."""
        if not self._unreachable:
            return [], None
        times = [
            (at, gang.gang, name)
            for gang in gangs
            for name in gang.nodes
            if (at := self.lost_at(name, gang.grace)) is not None
        ]
        lost = [(gang, name) for at, gang, name in times if at <= now]
        return lost, min((at for at, _, _ in times if at > now), default=None)

    def _find_outage(self, count: int) -> frozenset[str]:
        """Nodes that became unreachable together with too many others. `count`: of all nodes."""
        newest = max(self._unreachable.values(), default=0)
        recent = frozenset(name for name, at in self._unreachable.items() if at >= newest - UNREACHABLE_GRACE_MS)
        others = count - (len(self._unreachable) - len(recent))
        many = len(recent) >= OUTAGE_NODES and 100 * len(recent) > OUTAGE_PERCENT * others
        return recent if many else frozenset()


def _unreachable_since(node: Node, known: dict[str, int], now: int) -> int:
    """When a node became unreachable: by its backend, else when it was first observed."""
    return node.unreachable_since if node.unreachable_since is not None else known.get(node.name, now)
