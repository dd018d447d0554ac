"""The simulated nodes: their faults, and the part of them that is detected."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from windlass.backends.port import ClusterChanged
from windlass.backends.simulator.faults import NORMAL, Fault
from windlass.core.model.node import Node

DEAD = "not ready"


class Machines:
    """Nodes with any number of faults each; a node is healthy when the last one is over."""

    def __init__(self, declared: ClusterChanged) -> None:
        self._declared = declared
        self._dead: defaultdict[str, set[Fault]] = defaultdict(set)
        self._noticed: set[Fault] = set()
        self._closed: defaultdict[str, dict[Fault, str]] = defaultdict(dict)
        self._slow: defaultdict[str, set[Fault]] = defaultdict(set)
        self._unreachable: defaultdict[str, set[Fault]] = defaultdict(set)

    def declare(self, cluster: ClusterChanged) -> None:
        """Replaces nodes, queues and policy; faults of nodes stay."""
        self._declared = cluster

    def kill(self, fault: Fault) -> None:
        """Makes a node dead and undetected."""
        self._dead[fault.node].add(fault)

    def notice(self, fault: Fault) -> None:
        """Marks a fault as detected."""
        self._noticed.add(fault)

    def close(self, fault: Fault, reason: str) -> None:
        """Closes a node for new gangs."""
        self._closed[fault.node][fault] = reason

    def slow(self, fault: Fault) -> None:
        """Slows down everything on a node."""
        self._slow[fault.node].add(fault)

    def cut_off(self, fault: Fault) -> None:
        """Its node is not heard of."""
        self._unreachable[fault.node].add(fault)

    def end_fault(self, fault: Fault) -> None:
        """Ends a fault."""
        self._dead[fault.node].discard(fault)
        self._noticed.discard(fault)
        self._closed[fault.node].pop(fault, None)
        self._slow[fault.node].discard(fault)
        self._unreachable[fault.node].discard(fault)

    def unreachable_until(self, nodes: Iterable[str]) -> int | None:
        """When the last of these nodes can be reached again, in ms; None: all can."""
        return max((fault.until for node in nodes for fault in self._unreachable.get(node, ())), default=None)

    def is_dead(self, node: str) -> bool:
        """Tells whether a node is dead, detected or not."""
        return bool(self._dead[node])

    def speed(self, node: str) -> int:
        """Returns a node's speed in thousandths of normal."""
        return min((fault.speed for fault in self._slow[node]), default=NORMAL)

    def closed_reason(self, node: str) -> str:
        """Returns the detected reason why nothing may start on a node; "" for none."""
        found = next((n for n in self.known().nodes if n.name == node), None)
        if found is None:
            return "unknown"
        return found.cordoned or ("" if found.ready else DEAD)

    def known(self) -> ClusterChanged:
        """Returns the cluster as far as it is detected."""
        return replace(self._declared, nodes=tuple(self._as_known(node) for node in self._declared.nodes))

    def _as_known(self, node: Node) -> Node:
        lost = bool(self._dead[node.name] & self._noticed)
        since = min((fault.at for fault in self._unreachable[node.name]), default=None)
        reason = next(iter(self._closed[node.name].values()), node.cordoned)
        ready = not lost and since is None
        if ready and reason == node.cordoned:
            return node
        return replace(node, ready=node.ready and ready, unreachable_since=since, lost=lost, cordoned=reason)
