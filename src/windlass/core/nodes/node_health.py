"""Decides when a node is lost: ready, unreachable for a grace, then lost.

A node that its backend declares `lost` (deleted, or out of service) is lost at once. A node that is merely not ready is
unreachable: nothing new starts there, and what runs there goes on. It is lost after the grace of each gang on it. The
grace counts from the time at which this monitor first observed the node as unreachable: a new leader does not know when
the last outage ended, and its clock may differ from the backend's.

Guard: when many nodes become unreachable at once, the fault is more likely in the network or the control plane than in
the nodes. Then none of them is lost until the outage is over, and their grace starts anew. The thresholds are those of
Kubernetes' node lifecycle controller (`--unhealthy-zone-threshold` and full disruption):

- An outage begins when at least 3 nodes and more than 55 % of all become unreachable within `UNREACHABLE_GRACE_MS`.
  Nodes that were unreachable before count neither here nor in "all".
- An outage also begins when no node of a cluster of at least 2 is ready.
- Nodes that become unreachable later, during the outage, are part of it. It lasts until the unreachable nodes that are
  part of it are below the threshold.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from windlass.core.model.job import Job
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue

UNREACHABLE_GRACE_MS = 300_000
"""Default of `Job.unreachable_grace`: Kubernetes tolerates unreachable nodes as long (DefaultTolerationSeconds)."""
PEER_FAILURE_MS = 300_000
"""A member that fails within this time after a node of its gang became unreachable may have lost its peer there."""
OUTAGE_NODES = 3
DETECTION_MS = 60_000
"""A backend may notice a dead node so much later: Kubernetes after 50 s (`--node-monitor-grace-period`)."""
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


class _Absence(NamedTuple):
    """Times at which a node became unreachable."""

    since: int
    """By its backend; if that is unknown, when it was first observed."""
    observed: int
    """When this monitor first observed it."""


class NodeMonitor:
    """The unreachable nodes and, once there were many at once, the end of that outage. Times are ms."""

    def __init__(self) -> None:
        self._unreachable: dict[str, _Absence] = {}
        """By name."""
        self._outage_start: int | None = None
        """Nodes that have been unreachable since then or later are part of the outage; None: there is none."""
        self._outage_end = 0

    def observe(self, nodes: Iterable[Node], now: int) -> None:
        """Takes note of the nodes as they are now."""
        nodes = list(nodes)
        known = self._unreachable
        self._unreachable = {
            node.name: _absence_of(node, known, now) for node in nodes if not (node.ready or node.lost)
        }
        before, self._outage_start = self._outage_start, self._find_outage_start(nodes)
        if before is not None and self._outage_start is None:
            self._outage_end = now

    def is_unreachable(self, name: str) -> bool:
        """Whether a node is not ready and not lost."""
        return name in self._unreachable

    def lost_at(self, name: str, grace: int) -> int | None:
        """Time in ms from which an unreachable node is lost to a gang; None: it is not, as things are."""
        if not self.is_unreachable(name) or self._is_in_outage(name):
            return None
        return max(*self._unreachable[name], self._outage_end) + grace

    def may_explain_failure(self, name: str, at: int) -> bool:
        """Whether a node became unreachable, in no outage, at about the time of a failure of a member of its gang.

        `at`: time of the failure in ms, by the backend if it knows it.
        """
        if not self.is_unreachable(name) or self._is_in_outage(name):
            return False
        return -DETECTION_MS <= at - self._unreachable[name].since <= PEER_FAILURE_MS

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

    def _is_in_outage(self, name: str) -> bool:
        return self._outage_start is not None and self._unreachable[name].since >= self._outage_start

    def _find_outage_start(self, nodes: Sequence[Node]) -> int | None:
        """When the present outage began, in ms: the known one if it lasts, else a new one; None: there is none."""
        times = sorted(absence.since for absence in self._unreachable.values())
        if times and len(nodes) > 1 and not any(node.ready for node in nodes):
            return times[0]
        if self._outage_start is not None:
            earlier = bisect_left(times, self._outage_start)
            if _are_too_many(len(times) - earlier, len(nodes) - earlier):
                return self._outage_start
        for earlier, at in enumerate(times):
            together = bisect_right(times, at + UNREACHABLE_GRACE_MS) - earlier
            if _are_too_many(together, len(nodes) - earlier):
                return at
        return None


def _are_too_many(unreachable: int, count: int) -> bool:
    """Whether so many unreachable nodes of `count` are rather an outage than failures of single nodes."""
    return unreachable >= OUTAGE_NODES and 100 * unreachable > OUTAGE_PERCENT * count


def _absence_of(node: Node, known: Mapping[str, _Absence], now: int) -> _Absence:
    before = known.get(node.name, _Absence(now, now))
    return before if node.unreachable_since is None else before._replace(since=node.unreachable_since)
