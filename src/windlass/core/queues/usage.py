"""Usage of every queue and user, summed up the tree of queues and updated with each gang.

It begins with the usage of a snapshot and follows the starts, stops and resizes of a plan. Amounts are in the units of
`queue_tree.charge`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from windlass.core.model.snapshot import UserUsage
from windlass.core.queues.queue_tree import Amounts, Tree, charges

NOTHING: Amounts = {}
NO_USAGE = UserUsage(0, NOTHING)

Sums: TypeAlias = dict[str, int]
UsageByUser: TypeAlias = dict[tuple[str, str | None], UserUsage]


class QueueUsage:
    """Usage sums by queue. A sum is computed on first access and updated from then on: most plans need few of them."""

    def __init__(self, tree: Tree, held: Mapping[str, Amounts], users: Mapping[tuple[str, str], UserUsage]) -> None:
        """`held`: by queue, usage of its own jobs. `users`: the same by queue and user. Neither is modified."""
        self.tree = tree
        self.changed: list[str] = []
        """The queue of every change so far, by which caches of derived values detect what is stale."""
        self._held = held
        self._users = users
        self._own: dict[str, Sums] = {}
        self._totals: dict[str, Sums] = {}
        self._charged: dict[str, Sums] = {}
        self._by_user: UsageByUser | None = None

    def add(self, queue: str, user: str, amounts: Amounts, *, jobs: int = 1) -> None:
        """Adds amounts to the usage. `jobs` is 0 for the growth of a gang that runs already."""
        self._change(queue, user, charges(amounts), jobs)

    def subtract(self, queue: str, user: str, amounts: Amounts, *, jobs: int = 1) -> None:
        """Subtracts amounts from the usage."""
        self._change(queue, user, {name: -amount for name, amount in charges(amounts).items()}, -jobs)

    def copy(self) -> QueueUsage:
        """Returns a copy, for dry runs."""
        other = QueueUsage(self.tree, self._held, self._users)
        other._own = {name: dict(sums) for name, sums in self._own.items()}
        other._totals = {name: dict(sums) for name, sums in self._totals.items()}
        other._charged = {name: dict(sums) for name, sums in self._charged.items()}
        other._by_user = None if self._by_user is None else dict(self._by_user)
        return other

    def own(self, queue: str) -> Amounts:
        """Returns the usage of the queue's own jobs, without the queues below it."""
        return self._own_sums(queue)

    def total(self, queue: str) -> Amounts:
        """Returns the usage of the jobs in the queue and in all below it."""
        if queue not in self.tree.children:
            return self._own_sums(queue)
        if queue not in self._totals:
            sums = self._totals[queue] = {}
            for name in self._held.keys() | self._own.keys():
                if queue in self.tree.path.get(name, ()):
                    _add(sums, self._own_sums(name))
        return self._totals[queue]

    def charged(self, queue: str) -> Amounts:
        """Returns the used part of the queue's quota: own jobs, plus the use of children beyond what they keep back.

        Kueue's `usage` of a resource node.
        """
        if not self.tree.has_unlent_quota or queue not in self.tree.children:
            return self.total(queue)
        if queue not in self._charged:
            sums = self._charged[queue] = dict(self._own_sums(queue))
            for child in self.tree.children[queue]:
                kept = self.tree.unlent[child]
                _add(sums, {name: max(used - kept.get(name, 0), 0) for name, used in self.charged(child).items()})
        return self._charged[queue]

    def user_usage(self, queue: str, user: str | None = None) -> UserUsage:
        """Returns usage of one user's jobs (None: all users) in the queue and below, of the resources limited per user.

        Only of queues in `tree.job_limited`.
        """
        return self._usage_by_user().get((queue, user), NO_USAGE)

    def _change(self, queue: str, user: str, by: Amounts, jobs: int) -> None:
        self.changed.append(queue)
        if self.tree.job_limited:
            self._count_in(self._usage_by_user(), queue, user, UserUsage(jobs, by))
        path = self.tree.path.get(queue, ())
        own = self._own_sums(queue)
        _add(own, by)
        for name in path:
            if name in self._totals:
                _add(self._totals[name], by)
        if self._charged:
            for resource, amount in by.items():
                self._draw_along(path, resource, amount)

    def _own_sums(self, queue: str) -> Sums:
        found = self._own.get(queue)
        if found is None:
            found = self._own[queue] = charges(self._held.get(queue, NOTHING))
        return found

    def _draw_along(self, path: tuple[str, ...], resource: str, amount: int) -> None:
        """Adds an amount up the path, reduced at each queue by what it keeps back."""
        for name in path:
            if name in self.tree.children:
                sums = self._charged.get(name)
                if sums is None:
                    return  # nor are the sums of the queues above it
                after = sums[resource] = sums.get(resource, 0) + amount
            else:
                after = self._own[name][resource]
            kept = self.tree.unlent[name].get(resource, 0)
            amount = max(after - kept, 0) - max(after - amount - kept, 0)

    def _usage_by_user(self) -> UsageByUser:
        if self._by_user is None:
            self._by_user = {}
            for (queue, user), holding in self._users.items():
                self._count_in(self._by_user, queue, user, UserUsage(holding.jobs, charges(holding.amounts)))
        return self._by_user

    def _count_in(self, usages: UsageByUser, queue: str, user: str, by: UserUsage) -> None:
        for name in self.tree.path.get(queue, ()):
            if name in self.tree.job_limited:
                limits = self.tree.queues[name].user_limits
                for key in (user, None):
                    before = usages.get((name, key), NO_USAGE)
                    amounts = {r: before.amounts.get(r, 0) + by.amounts.get(r, 0) for r in limits}
                    usages[name, key] = UserUsage(before.jobs + by.jobs, amounts)


def _add(sums: Sums, by: Amounts) -> None:
    for name, amount in by.items():
        sums[name] = sums.get(name, 0) + amount
