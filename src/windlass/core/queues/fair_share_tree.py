"""Whose turn it is between queues: down the tree, at each level the sibling that stands first.

Who stays within his own quota goes before who would borrow, whatever their priorities: he could take it back from them
anyway, and so no two gangs take the same nodes from each other in turns. Then, if the order has priority_first, the
higher priority, then the lower share (`fairshare.Shares`); between equals, the one whose next gang has the earlier
turn. Shares change as the plan starts gangs, so after each step the queues that it touched are looked at anew, and
nobody else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TypeAlias

from windlass.core.model.gang import EquivalenceClass, Turn
from windlass.core.queues.class_heap import ClassHeap, NextGang
from windlass.core.queues.fair_share import Shares

Rank: TypeAlias = tuple[bool, int, int, Turn]
"""(borrows, priority downwards or 0, share, turn)"""
_rank_of = attrgetter("rank")


class ShareNode:
    """One node in a match between siblings: a queue's own gangs, or those of a queue and all below it."""

    __slots__ = ("children", "heaps", "leader", "own", "parent", "queue", "rank", "representative", "share")

    def __init__(self, queue: str, parent: ShareNode | None, heaps: Sequence[ClassHeap], *, own: bool = False) -> None:
        self.queue = queue
        self.parent = parent
        self.heaps = heaps
        """Its gangs; none: its children have them."""
        self.representative: ClassHeap | None = None
        """Those of them who go first."""
        self.own = own
        """It is a queue with others below it, and these are its own gangs alone."""
        self.children: list[ShareNode] = []
        """Those who have gangs left."""
        self.leader: tuple[NextGang, ShareNode] | None = None
        """Who goes first of all here, and of which queue it is. None: nobody is left."""
        self.share: int | None = None
        """None: it has to be asked for."""
        self.rank: Rank = (False, 0, 0, ((), 0, 0, "", 0, ""))


class FairShareTree:
    """A step costs what the queues on one path through the tree, and their siblings, cost."""

    def __init__(self, shares: Shares, heaps: Mapping[str, Sequence[ClassHeap]], *, priority_first: bool) -> None:
        """`heaps`: by queue, its representative first, then a heap that counts only if the first exceeds the quota."""
        self._shares = shares
        self._priority_first = priority_first
        self._seen = len(shares.usage.changed)
        self._root = ShareNode("", None, ())
        self._inner: dict[str, ShareNode] = {}
        """By queue that has others below it: all of these together."""
        self._leaves: dict[str, ShareNode] = {}
        for name in sorted(heaps):
            self._insert(name, heaps[name])
        self._update_below(self._root)

    def first(self) -> NextGang | None:
        """Whose turn it is; None: nobody is left."""
        return self._root.leader[0] if self._root.leader else None

    @property
    def eq_class(self) -> EquivalenceClass:
        """Of the first."""
        return self._winning_heap().eq_class

    def advance(self, longest: int | None) -> None:
        """As in `Heads`."""
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
        assert self._root.leader is not None, "nobody is left"  # noqa: S101 - asked for after `first` alone
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
        """The first node from a queue up that takes child; None: nobody of its tree does."""
        if name in self._leaves:
            return self._leaves[name]
        path = self._shares.tree.path.get(name, ())
        return next((self._inner[level] for level in path if level in self._inner), None)

    def _update_below(self, node: ShareNode) -> None:
        """Find out who goes first here, and below."""
        for child in tuple(node.children):
            self._update_below(child)
        self._update(node)

    def _update_upwards(self, node: ShareNode | None) -> None:
        """Find out anew who goes first here and how this node stands, and so on up to the top."""
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
        if len(found) > 1 and not self._shares.within(node.queue, node.queue, head.gang.request):
            head, node.representative = min(found, key=lambda each: each[0].turn)
        return head, node

    def _rank(self, node: ShareNode, head: NextGang, of: ShareNode) -> Rank:
        shares = self._shares
        if node.share is None:
            node.share = shares.own_share(node.queue) if node.own else shares.share(node.queue)
        rank = -head.gang.priority if self._priority_first else 0
        if not shares.tree.limited.get(of.queue):
            return False, rank, node.share, head.turn
        request = head.gang.request
        stays = shares.own_within(of.queue, request) if node.own else shares.within(of.queue, node.queue, request)
        return not stays, rank, node.share, head.turn


def _forget_shares(node: ShareNode | None) -> None:
    """What is held there has changed, and so the shares from there up."""
    while node is not None:
        node.share = None
        node = node.parent
