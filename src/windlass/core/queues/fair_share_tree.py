"""Whose turn it is between queues: down the tree, at each level the sibling that stands first.

Who stays within his own quota goes before who would borrow, whatever their priorities: he could take it back from them
anyway, and so no two gangs take the same nodes from each other in turns. Then, if the order has classes, the higher
priority, then the lower share (`fairshare.Shares`); between equals, the one whose next gang has the earlier turn.
Shares change as the plan starts gangs, so after each step the queues that it touched are looked at anew, and nobody
else.
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
    """One side in a match between siblings: a queue's own gangs, or those of a queue and all below it."""

    __slots__ = ("above", "best", "heads", "own", "parts", "queue", "rank", "share", "speak")

    def __init__(self, queue: str, above: ShareNode | None, heads: Sequence[ClassHeap], *, own: bool = False) -> None:
        self.queue = queue
        self.above = above
        self.heads = heads
        """Its gangs; none: its parts have them."""
        self.speak: ClassHeap | None = None
        """Those of them who go first."""
        self.own = own
        """It is a queue with others below it, and these are its own gangs alone."""
        self.parts: list[ShareNode] = []
        """Those who have gangs left."""
        self.best: tuple[NextGang, ShareNode] | None = None
        """Who goes first of all here, and of which queue it is. None: nobody is left."""
        self.share: int | None = None
        """None: it has to be asked for."""
        self.rank: Rank = (False, 0, 0, ((), 0, 0, "", 0, ""))


class FairShareTree:
    """A step costs what the queues on one path through the tree, and their siblings, cost."""

    def __init__(self, shares: Shares, heads: Mapping[str, Sequence[ClassHeap]], *, classes: bool) -> None:
        """`heads`: of each queue those who speak for it, and then those who do only where nobody stays within quota."""
        self._shares = shares
        self._classes = classes
        self._seen = len(shares.accounts.changed)
        self._top = ShareNode("", None, ())
        self._whole: dict[str, ShareNode] = {}
        """By queue that has others below it: all of these together."""
        self._single: dict[str, ShareNode] = {}
        for name in sorted(heads):
            self._enter(name, heads[name])
        self._look_below(self._top)

    def first(self) -> NextGang | None:
        """Whose turn it is; None: nobody is left."""
        return self._top.best[0] if self._top.best else None

    @property
    def line(self) -> EquivalenceClass:
        """Of the first."""
        return self._winners_heads().line

    def pass_on(self, longest: int | None) -> None:
        """As in `Heads`."""
        winner = self._winner()
        self._winners_heads().pass_on(longest)
        changed = self._shares.accounts.changed
        for name in changed[self._seen :]:
            side = self._lowest(name)
            _forget_shares(side)
            if side is not winner:
                self._look_at(side)
        self._seen = len(changed)
        self._look_at(winner)

    def _winner(self) -> ShareNode:
        assert self._top.best is not None, "nobody is left"  # noqa: S101 - asked for after `first` alone
        return self._top.best[1]

    def _winners_heads(self) -> ClassHeap:
        heads = self._winner().speak
        assert heads is not None, "a winner has gangs"  # noqa: S101 - by construction
        return heads

    def _enter(self, name: str, heads: Sequence[ClassHeap]) -> None:
        tree = self._shares.tree
        path, has_children = tree.path.get(name, (name,)), name in tree.children
        above = self._top
        for level in reversed(path if has_children else path[1:]):
            if level not in self._whole:
                self._whole[level] = ShareNode(level, above, ())
                above.parts.append(self._whole[level])
            above = self._whole[level]
        self._single[name] = ShareNode(name, above, heads, own=has_children)
        above.parts.append(self._single[name])

    def _lowest(self, name: str) -> ShareNode | None:
        """The first side from a queue up that takes part; None: nobody of its tree does."""
        if name in self._single:
            return self._single[name]
        path = self._shares.tree.path.get(name, ())
        return next((self._whole[level] for level in path if level in self._whole), None)

    def _look_below(self, side: ShareNode) -> None:
        """Find out who goes first here, and below."""
        for part in tuple(side.parts):
            self._look_below(part)
        self._settle(side)

    def _look_at(self, side: ShareNode | None) -> None:
        """Find out anew who goes first here and how this side stands, and so on up to the top."""
        while side is not None:
            self._settle(side)
            side = side.above

    def _settle(self, side: ShareNode) -> None:
        side.best = self._best(side)
        if side.above is None:
            return
        if side.best is not None:
            side.rank = self._rank(side, *side.best)
        elif side in side.above.parts:
            side.above.parts.remove(side)

    def _best(self, side: ShareNode) -> tuple[NextGang, ShareNode] | None:
        if not side.heads:
            return min(side.parts, key=_rank_of).best if side.parts else None
        found = [(head, heads) for heads in side.heads if (head := heads.first()) is not None]
        if not found:
            return None
        head, side.speak = found[0]
        if len(found) > 1 and not self._shares.within(side.queue, side.queue, head.gang.request):
            head, side.speak = min(found, key=lambda each: each[0].turn)
        return head, side

    def _rank(self, side: ShareNode, head: NextGang, of: ShareNode) -> Rank:
        shares = self._shares
        if side.share is None:
            side.share = shares.own_share(side.queue) if side.own else shares.share(side.queue)
        rank = -head.gang.priority if self._classes else 0
        if not shares.tree.limited.get(of.queue):
            return False, rank, side.share, head.turn
        request = head.gang.request
        stays = shares.own_within(of.queue, request) if side.own else shares.within(of.queue, side.queue, request)
        return not stays, rank, side.share, head.turn


def _forget_shares(side: ShareNode | None) -> None:
    """What is held there has changed, and so the shares from there up."""
    while side is not None:
        side.share = None
        side = side.above
