"""The nodes of a sim world: what is wrong with each, and what of it is known."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from windlass.backends.port import ClusterChanged
from windlass.backends.simulator.faults import NORMAL, Fault
from windlass.core.model.node import Node

DEAD = "not ready"


class Machines:
    """Several faults may be upon a node at a time; it is well when the last of them is over."""

    def __init__(self, declared: ClusterChanged) -> None:
        self._declared = declared
        self._dead: defaultdict[str, set[Fault]] = defaultdict(set)
        self._noticed: set[Fault] = set()
        self._closed: defaultdict[str, dict[Fault, str]] = defaultdict(dict)
        self._slow: defaultdict[str, set[Fault]] = defaultdict(set)

    def declare(self, cluster: ClusterChanged) -> None:
        """Other nodes, queues or rules from now on; what is wrong with nodes stays."""
        self._declared = cluster

    def kill(self, fault: Fault) -> None:
        """Its node is dead, and nobody knows yet."""
        self._dead[fault.node].add(fault)

    def notice(self, fault: Fault) -> None:
        """Now it is known."""
        self._noticed.add(fault)

    def close(self, fault: Fault, why: str) -> None:
        """Nothing new may start there."""
        self._closed[fault.node][fault] = why

    def slow(self, fault: Fault) -> None:
        """Everything there is slow."""
        self._slow[fault.node].add(fault)

    def mend(self, fault: Fault) -> None:
        """This fault is over."""
        self._dead[fault.node].discard(fault)
        self._noticed.discard(fault)
        self._closed[fault.node].pop(fault, None)
        self._slow[fault.node].discard(fault)

    def is_dead(self, node: str) -> bool:
        """Whether anything could run there, known or not."""
        return bool(self._dead[node])

    def speed(self, node: str) -> int:
        """In thousandths of its own."""
        return min((fault.speed for fault in self._slow[node]), default=NORMAL)

    def shut(self, node: str) -> str:
        """Why nothing may start there as far as is known; "" if it may."""
        found = next((n for n in self.known().nodes if n.name == node), None)
        if found is None:
            return "unknown"
        return found.cordoned or ("" if found.ready else DEAD)

    def known(self) -> ClusterChanged:
        """The cluster as it is known to be."""
        return replace(self._declared, nodes=tuple(self._as_known(node) for node in self._declared.nodes))

    def _as_known(self, node: Node) -> Node:
        ready = not (self._dead[node.name] & self._noticed)
        why = next(iter(self._closed[node.name].values()), node.cordoned)
        return node if ready and why == node.cordoned else replace(node, ready=node.ready and ready, cordoned=why)
