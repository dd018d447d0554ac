"""Selects the next queue by weighted dominant share: at each level of the tree, the child that ranks first.

The first of these rules that tells two siblings apart decides:

1. A queue that stays within its own quota goes before one that would borrow. It could reclaim its quota anyway, so
   otherwise two gangs could preempt each other from the same nodes again and again.
2. If the order has `priority_first`, the higher priority of the next gang.
3. The lower share (`fair_share.Shares`).
4. The smaller sort key of the next gang within its queue.

Shares change as the plan starts gangs, so each step ranks the queues again whose usage it changed, and no others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TypeAlias

from windlass.core.model.gang import EquivalenceClass, SortKey
from windlass.core.queues.class_heap import ClassHeap, NextGang
from windlass.core.queues.fair_share import Shares

Rank: TypeAlias = tuple[bool, int, int, SortKey]
"""(borrows, negative priority or 0, share, sort key)"""
_rank_of = attrgetter("rank")


class ShareNode:
    """A node that competes with its siblings: a queue's own gangs, or a queue and all below it."""

    __slots__ = ("children", "heaps", "leader", "own", "parent", "queue", "rank", "representative", "share")

    def __init__(self, queue: str, parent: ShareNode | None, heaps: Sequence[ClassHeap], *, own: bool = False) -> None:
        self.queue = queue
        self.parent = parent
        self.heaps = heaps
        """Heaps of the node's gangs; empty: its children have them."""
        self.representative: ClassHeap | None = None
        """The heap with the node's next gang."""
        self.own = own
        """Whether the queue has children, and this node has only the gangs of the queue itself."""
        self.children: list[ShareNode] = []
        """The children with gangs left."""
        self.leader: tuple[NextGang, ShareNode] | None = None
        """The next gang below this node, and the node of its queue. None: no gang is left."""
        self.share: int | None = None
        """None: to be computed."""
        self.rank: Rank = (False, 0, 0, ((), 0, 0, "", 0, ""))


class FairShareTree:
    """The nodes of all queues with waiting gangs.

    A step costs time in proportion to the queues on one path through the tree, and their siblings.
    """

    def __init__(self, shares: Shares, heaps: Mapping[str, Sequence[ClassHeap]], *, priority_first: bool) -> None:
        """`heaps`: by queue, one or two.

        The second one has the gangs that exceed both the quota and the amount that the queue could borrow. It counts
        only if the first has no gang left, or its next gang exceeds the quota too.
        """
        self._shares = shares
        self._priority_first = priority_first
        self._seen = len(shares.usage.changed)
        self._root = ShareNode("", None, ())
        self._inner: dict[str, ShareNode] = {}
        """By queue with children: the node of the queue and all below it."""
        self._leaves: dict[str, ShareNode] = {}
        for name in sorted(heaps):
            self._insert(name, heaps[name])
        self._update_below(self._root)

    def first(self) -> NextGang | None:
        """Returns the next gang; None: no gang is left."""
        return self._root.leader[0] if self._root.leader else None

    @property
    def eq_class(self) -> EquivalenceClass:
        """The class of the next gang."""
        return self._winning_heap().eq_class

    def advance(self, longest: int | None) -> None:
        """Passes over the next gang, as `ClassHeap.advance`."""
        winner = self._winner()
        self._winning_heap().advance(longest)
        changed = self._shares.usage.changed
        for name in changed[self._seen :]:
            node = self._lowest(name)
            _forget_shares(node)
            if node is not winner:
                self._update_upwards(node)
        self._seen = len(changed)
        self._update_upwards(winner)

    def _winner(self) -> ShareNode:
        assert self._root.leader is not None, "no gang is left"  # noqa: S101 - called after `first` only
        return self._root.leader[1]

    def _winning_heap(self) -> ClassHeap:
        heaps = self._winner().representative
        assert heaps is not None, "a winner has gangs"  # noqa: S101 - by construction
        return heaps

    def _insert(self, name: str, heaps: Sequence[ClassHeap]) -> None:
        tree = self._shares.tree
        path, has_children = tree.path.get(name, (name,)), name in tree.children
        parent = self._root
        for level in reversed(path if has_children else path[1:]):
            if level not in self._inner:
                self._inner[level] = ShareNode(level, parent, ())
                parent.children.append(self._inner[level])
            parent = self._inner[level]
        self._leaves[name] = ShareNode(name, parent, heaps, own=has_children)
        parent.children.append(self._leaves[name])

    def _lowest(self, name: str) -> ShareNode | None:
        """Returns the node of a queue, or of its nearest ancestor that has one; None: there is none."""
        if name in self._leaves:
            return self._leaves[name]
        path = self._shares.tree.path.get(name, ())
        return next((self._inner[level] for level in path if level in self._inner), None)

    def _update_below(self, node: ShareNode) -> None:
        """Computes leader and rank of this node and all below it."""
        for child in tuple(node.children):
            self._update_below(child)
        self._update(node)

    def _update_upwards(self, node: ShareNode | None) -> None:
        """Computes leader and rank of this node and all above it."""
        while node is not None:
            self._update(node)
            node = node.parent

    def _update(self, node: ShareNode) -> None:
        node.leader = self._leader(node)
        if node.parent is None:
            return
        if node.leader is not None:
            node.rank = self._rank(node, *node.leader)
        elif node in node.parent.children:
            node.parent.children.remove(node)

    def _leader(self, node: ShareNode) -> tuple[NextGang, ShareNode] | None:
        if not node.heaps:
            return min(node.children, key=_rank_of).leader if node.children else None
        found = [(head, heaps) for heaps in node.heaps if (head := heaps.first()) is not None]
        if not found:
            return None
        head, node.representative = found[0]
        if len(found) > 1 and not self._shares.is_within_quota(node.queue, node.queue, head.gang.minimum_request):
            head, node.representative = min(found, key=lambda each: each[0].sort_key)
        return head, node

    def _rank(self, node: ShareNode, head: NextGang, leaf: ShareNode) -> Rank:
        shares = self._shares
        if node.share is None:
            node.share = shares.own_share(node.queue) if node.own else shares.share(node.queue)
        rank = -head.gang.priority if self._priority_first else 0
        if not shares.tree.limited_resources.get(leaf.queue):
            return False, rank, node.share, head.sort_key
        request = head.gang.minimum_request
        stays = (
            shares.is_own_within_quota(leaf.queue, request)
            if node.own
            else shares.is_within_quota(leaf.queue, node.queue, request)
        )
        return not stays, rank, node.share, head.sort_key


def _forget_shares(node: ShareNode | None) -> None:
    """Drops the cached shares from this node upwards, after a change of usage."""
    while node is not None:
        node.share = None
        node = node.parent
