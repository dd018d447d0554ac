"""Resources of each node used by pods outside our gangs, kept by pod, so that an event costs one pod's work.

Pods of other schedulers, daemon sets, static pods, and single pods of ours are alike here: bound, and not ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from windlass.core.model.resources import Resources

_NOTHING: Resources = MappingProxyType({})
_SHAPES = 8_192
"""Number of shared amounts kept; beyond it they are discarded."""


class Occupancy:
    """Amounts by node, with Kubernetes' resource names and the core's units."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[str, Resources]] = {}
        self._taken: dict[str, dict[str, int]] = {}
        self._shapes: dict[tuple[tuple[str, int], ...], Resources] = {}

    def put(self, uid: str, node: str, amounts: Resources) -> tuple[str, ...]:
        """Sets the amounts of a pod on a node. Returns the nodes whose free capacity changed."""
        before = self._pods.get(uid)
        if before is not None and before[0] == node and before[1] == amounts:
            return ()
        freed = self.drop(uid)
        self._pods[uid] = node, self._shared(amounts)
        self._add(node, amounts, 1)
        return (node,) if freed in ((), (node,)) else (*freed, node)

    def drop(self, uid: str) -> tuple[str, ...]:
        """Removes a pod. Returns the nodes whose free capacity changed."""
        before = self._pods.pop(uid, None)
        if before is None:
            return ()
        node, amounts = before
        self._add(node, amounts, -1)
        return (node,)

    def taken(self, node: str) -> Resources:
        """Returns the used amounts of a node, known or not."""
        return self._taken.get(node, _NOTHING)

    def pods(self) -> Mapping[str, tuple[str, Resources]]:
        """Returns, by uid, the node and the amounts of each pod that uses any."""
        return MappingProxyType(self._pods)

    def _shared(self, amounts: Resources) -> Resources:
        """Returns a shared mapping: most pods have the same amounts as others."""
        if len(self._shapes) >= _SHAPES:
            self._shapes.clear()
        key = tuple(sorted(amounts.items()))
        return self._shapes.setdefault(key, amounts)

    def _add(self, node: str, amounts: Resources, sign: int) -> None:
        taken = self._taken.setdefault(node, {})
        for name, amount in amounts.items():
            left = taken.get(name, 0) + sign * amount
            if left:
                taken[name] = left
            else:
                taken.pop(name, None)
        if not taken:
            del self._taken[node]
