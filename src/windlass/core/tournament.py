"""Whose turn it is between queues: down the tree, at each level the sibling that stands first.

`fairshare.Standing` decides: who stays within his own quota goes before who would borrow, then the lower share; between
equals, the one whose next gang has the earlier turn. Shares change as the plan starts gangs, so after each step the
queues that it touched are looked at anew, and nobody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from windlass.core.fairshare import Shares, Standing
from windlass.core.gang import Line, Turn, total_of
from windlass.core.heads import Head, Heads

Rank: TypeAlias = tuple[Standing, Turn]


class Side:
    """One side in a match between siblings: a queue's own gangs, or those of a queue and all below it."""

    __slots__ = ("above", "best", "own", "parts", "queue", "rank")

    def __init__(self, queue: str, above: Side | None, own: Heads | None) -> None:
        self.queue = queue
        self.above = above
        self.own = own
        """Its gangs; None: its parts have them."""
        self.parts: list[Side] = []
        self.best: tuple[Head, Side] | None = None
        """Who goes first of all here, and of which queue it is. None: nobody is left."""
        self.rank: Rank = ((False, 0), ((), 0, 0, "", 0, ""))


class Tournament:
    """A step costs what the queues on one path through the tree, and their siblings, cost."""

    def __init__(self, shares: Shares, heads: Mapping[str, Heads]) -> None:
        self._shares = shares
        self._seen = len(shares.accounts.changed)
        self._top = Side("", None, None)
        self._whole: dict[str, Side] = {}
        """By queue that has others below it: all of these together."""
        self._own: dict[str, Side] = {}
        for name in sorted(heads):
            self._enter(name, heads[name])
        self._look_below(self._top)

    def first(self) -> Head | None:
        """Whose turn it is; None: nobody is left."""
        return self._top.best[0] if self._top.best else None

    @property
    def line(self) -> Line:
        """Of the first."""
        return self._winners_heads().line

    def pass_on(self, longest: int | None) -> None:
        """As in `Heads`."""
        self._winners_heads().pass_on(longest)
        changed = self._shares.accounts.changed
        touched = dict.fromkeys((self._winner().queue, *changed[self._seen :]))
        self._seen = len(changed)
        for name in touched:
            self._look_at(self._lowest(name))

    def _winner(self) -> Side:
        assert self._top.best is not None, "nobody is left"  # noqa: S101 - asked for after `first` alone
        return self._top.best[1]

    def _winners_heads(self) -> Heads:
        heads = self._winner().own
        assert heads is not None, "a winner has gangs"  # noqa: S101 - by construction
        return heads

    def _enter(self, name: str, heads: Heads) -> None:
        tree = self._shares.tree
        path = tree.path.get(name, (name,))
        above = self._top
        for level in reversed(path if name in tree.children else path[1:]):
            if level not in self._whole:
                self._whole[level] = Side(level, above, None)
                above.parts.append(self._whole[level])
            above = self._whole[level]
        self._own[name] = Side(name, above, heads)
        above.parts.append(self._own[name])

    def _lowest(self, name: str) -> Side | None:
        """The side at or above a queue that takes part; None: nobody of its tree does."""
        if name in self._own:
            return self._own[name]
        return next(
            (self._whole[level] for level in self._shares.tree.path.get(name, ()) if level in self._whole), None
        )

    def _look_below(self, side: Side) -> None:
        """Find out who goes first here, and below."""
        for part in side.parts:
            self._look_below(part)
        side.best = _best(side)
        if side.best is not None and side.above is not None:
            side.rank = self._rank(side, *side.best)

    def _look_at(self, side: Side | None) -> None:
        """Find out anew who goes first here and how this side stands, and so on up to the top."""
        while side is not None:
            side.best = _best(side)
            if side.best is not None and side.above is not None:
                side.rank = self._rank(side, *side.best)
            side = side.above

    def _rank(self, side: Side, head: Head, of: Side) -> Rank:
        request = total_of(head.gang.demands)
        if side.own is not None and side.queue in self._shares.tree.children:
            return self._shares.own_stands(side.queue, request), head.turn
        return self._shares.stands(of.queue, side.queue, request), head.turn


def _best(side: Side) -> tuple[Head, Side] | None:
    if side.own is not None:
        head = side.own.first()
        return None if head is None else (head, side)
    able = [part for part in side.parts if part.best is not None]
    return min(able, key=_rank_of).best if able else None


def _rank_of(side: Side) -> Rank:
    return side.rank
