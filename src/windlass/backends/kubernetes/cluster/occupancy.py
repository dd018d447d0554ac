"""What pods that are none of our gangs take of each node: kept by pod, so that one event costs one pod.

Pods of other schedulers, daemon sets, static pods, and single pods of ours are all the same here: bound, and not ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from windlass.core.model.resources import Resources

_NOTHING: Resources = MappingProxyType({})
_SHAPES = 8_192
"""Kept to be shared; then they are forgotten and found anew."""


class Occupancy:
    """Amounts by node, in Kubernetes' own names for resources and the core's units."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[str, Resources]] = {}
        self._taken: dict[str, dict[str, int]] = {}
        self._shapes: dict[tuple[tuple[str, int], ...], Resources] = {}

    def put(self, uid: str, node: str, amounts: Resources) -> tuple[str, ...]:
        """A pod takes so much of a node, whatever it took before. Returns the nodes of which there is more or less."""
        before = self._pods.get(uid)
        if before is not None and before[0] == node and before[1] == amounts:
            return ()
        freed = self.drop(uid)
        self._pods[uid] = node, self._shared(amounts)
        self._add(node, amounts, 1)
        return (node,) if freed in ((), (node,)) else (*freed, node)

    def drop(self, uid: str) -> tuple[str, ...]:
        """A pod takes nothing any more. Returns the nodes that have more left."""
        before = self._pods.pop(uid, None)
        if before is None:
            return ()
        node, amounts = before
        self._add(node, amounts, -1)
        return (node,)

    def taken(self, node: str) -> Resources:
        """What is taken of a node; also of one that is not known yet."""
        return self._taken.get(node, _NOTHING)

    def pods(self) -> Mapping[str, tuple[str, Resources]]:
        """By uid: the node of each pod that takes anything, and what it takes."""
        return MappingProxyType(self._pods)

    def _shared(self, amounts: Resources) -> Resources:
        """Most pods are like others: one mapping for all of a shape."""
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
