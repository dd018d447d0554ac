"""What every queue and every user holds, summed up the tree of queues and kept up gang by gang.

A trial's books: they begin as its snapshot stands and follow whatever the plan starts, stops and resizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from windlass.core.cohort import Amounts, Tree, charges
from windlass.core.snapshot import Holding

NOTHING: Amounts = {}
NOBODY = Holding(0, NOTHING)

Sums: TypeAlias = dict[str, dict[str, int]]
Crowds: TypeAlias = dict[tuple[str, str | None], Holding]


class Accounts:
    """Sums are worked out when they are first asked for: one queue without a quota costs nothing."""

    def __init__(self, tree: Tree, held: Mapping[str, Amounts], users: Mapping[tuple[str, str], Holding]) -> None:
        self.tree = tree
        self.own: dict[str, Amounts] = dict(held)
        """By queue: what its own jobs hold, those of the queues below it left out."""
        self.changed: list[str] = []
        """The queue of every change so far; whoever keeps something worked out sees by it what is stale."""
        self._users: dict[tuple[str, str], Holding] = dict(users)
        self._totals: Sums | None = None
        self._drawn: Sums | None = None
        self._crowds: Crowds | None = None

    def take(self, queue: str, user: str, amounts: Amounts, *, jobs: int = 1) -> None:
        """So much more is held. `jobs` is 0 if it is a gang that runs already, and grows."""
        self._change(queue, user, amounts, 1, jobs)

    def give_back(self, queue: str, user: str, amounts: Amounts, *, jobs: int = 1) -> None:
        """The exact opposite."""
        self._change(queue, user, amounts, -1, -jobs)

    def copy(self) -> Accounts:
        """Other books with the same content, to try something on."""
        return Accounts(self.tree, self.own, self._users)

    def total(self, queue: str) -> Amounts:
        """What the jobs in the queue and in all below it hold, as `cohort.charge` counts it."""
        if self._totals is None:
            self._totals = {}
            for name, held in self.own.items():
                _add_along(self._totals, self._path(name), charges(held))
        return self._totals.get(queue, NOTHING)

    def drawn(self, queue: str) -> Amounts:
        """What of the queue's quota is used: by its own jobs, and by its children beyond what they keep for themselves.

        Kueue's `usage` of a resource node.
        """
        if not self.tree.keeps:
            return self.total(queue)
        if self._drawn is None:
            self._drawn = {}
            for name, held in self.own.items():
                _draw_along(self._drawn, self.tree, self._path(name), charges(held))
        return self._drawn.get(queue, NOTHING)

    def crowd(self, queue: str, user: str | None = None) -> Holding:
        """What the jobs of one user (None: of all) hold in the queue and below; only of queues in `tree.crowded`."""
        if self._crowds is None:
            self._crowds = {}
            for (name, owner), holding in self._users.items():
                self._count_in(self._crowds, name, owner, holding)
        return self._crowds.get((queue, user), NOBODY)

    def _change(self, queue: str, user: str, amounts: Amounts, sign: int, jobs: int) -> None:
        self.changed.append(queue)
        self.own[queue] = _changed(self.own.get(queue, NOTHING), amounts, sign)
        before = self._users.get((queue, user), NOBODY)
        self._users[queue, user] = Holding(before.jobs + jobs, _changed(before.amounts, amounts, sign))
        if self._totals is not None or self._drawn is not None:
            by = {name: sign * amount for name, amount in charges(amounts).items()}
            if self._totals is not None:
                _add_along(self._totals, self._path(queue), by)
            if self._drawn is not None:
                _draw_along(self._drawn, self.tree, self._path(queue), by)
        if self._crowds is not None:
            by_job = {name: sign * amount for name, amount in amounts.items()}
            self._count_in(self._crowds, queue, user, Holding(jobs, by_job))

    def _path(self, queue: str) -> tuple[str, ...]:
        return self.tree.path.get(queue) or (queue,)

    def _count_in(self, crowds: Crowds, queue: str, user: str, by: Holding) -> None:
        for name in self._path(queue):
            if name in self.tree.crowded:
                for who in (user, None):
                    before = crowds.get((name, who), NOBODY)
                    crowds[name, who] = Holding(before.jobs + by.jobs, _changed(before.amounts, by.amounts, 1))


def _add_along(sums: Sums, path: tuple[str, ...], by: Amounts) -> None:
    for name in path:
        there = sums.setdefault(name, {})
        for resource, amount in by.items():
            there[resource] = there.get(resource, 0) + amount


def _draw_along(sums: Sums, tree: Tree, path: tuple[str, ...], by: Amounts) -> None:
    """Each amount goes up the path until it has been covered by what a queue keeps for itself."""
    for resource, amount in by.items():
        rest = amount
        for name in path:
            there = sums.setdefault(name, {})
            before = there.get(resource, 0)
            there[resource] = before + rest
            kept = tree.kept[name].get(resource, 0) if name in tree.kept else 0
            rest = max(before + rest - kept, 0) - max(before - kept, 0)


def _changed(amounts: Amounts, by: Amounts, sign: int) -> Amounts:
    after = dict(amounts)
    for name, amount in by.items():
        after[name] = after.get(name, 0) + sign * amount
    return after
