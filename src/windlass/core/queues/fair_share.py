"""Fair share: the order between queues, and the right to reclaim. Both use the same measure.

At each level of the tree, siblings are compared: a queue that stays within its own quota goes before one that borrows,
and of two such the one with the lower share. A share is the largest, over all resources, of (usage + past usage) /
(capacity · weight), as an integer in millionths (dominant resource fairness, Ghodsi et al., NSDI 2011, weighted).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from windlass.core.model.queue import PastUsage
from windlass.core.model.resources import is_shared_out
from windlass.core.model.snapshot import NodeTable
from windlass.core.queues.decayed_usage import SCALE
from windlass.core.queues.queue_tree import Amounts, Tree, charge, charges
from windlass.core.queues.quota import increase_along
from windlass.core.queues.usage import NOTHING, QueueUsage

MILLIONTHS = 1_000_000

Standing: TypeAlias = tuple[bool, int]
"""For a request: whether it makes the queue borrow, and the queue's share before it. The smaller goes first.

The share is the one *before* the request. By the share after it, a queue of large gangs would always go last as long as
its siblings have small ones.
"""


class Shares:
    """The shares of queues, each with everything below it; they follow the usage, and so the plan."""

    def __init__(self, usage: QueueUsage, capacity: Amounts, past: Mapping[str, PastUsage]) -> None:
        self.usage = usage
        self.tree = usage.tree
        self.capacity = capacity
        """Capacity of the whole cluster, in the units of `queue_tree.charge`."""
        self._past = past_usage_by_queue(self.tree, past)

    def follow(self, usage: QueueUsage) -> Shares:
        """Returns the shares by another usage of the same queues."""
        other = Shares(usage, self.capacity, {})
        other._past = self._past
        return other

    def share(self, queue: str) -> int:
        """Returns the share of the queue and all below it, in millionths of the cluster per unit of weight."""
        return self._share(self.usage.total(queue), self._past.get(queue, NOTHING), self._weight(queue))

    def own_share(self, queue: str) -> int:
        """Returns the share of the queue's own jobs alone, with weight 1, which ranks them against the queues below."""
        return self._share(self.usage.own(queue), NOTHING, 1)

    def is_within_quota(self, queue: str, level: str, request: Amounts) -> bool:
        """Tells whether `level` holds at most its own quota after the queue, at or below it, takes the request."""
        path = self.tree.path.get(queue, ())
        if not path or level == path[-1]:
            return True
        place = path.index(level) + 1
        drawn, quota = self.usage.charged(level), self.tree.quota[level]
        for name in self.tree.contested_resources[path[place]]:
            requested = charge(request, name)
            more = increase_along(self.usage, path[:place], name, requested)
            if requested > 0 and drawn.get(name, 0) + more > quota.get(name, 0):
                return False
        return True

    def is_own_within_quota(self, queue: str, request: Amounts) -> bool:
        """Tells the same for the own jobs of a queue that has children."""
        own, nominal = self.usage.own(queue), self.tree.queues[queue].nominal
        requested = {name: charge(request, name) for name in self.tree.contested_resources[queue]}
        return all(own.get(name, 0) + more <= charge(nominal, name) for name, more in requested.items() if more > 0)

    def is_borrowing(self, level: str, resource: str) -> bool:
        """Tells whether a queue and all below it hold more of a resource than their quota."""
        return self.usage.charged(level).get(resource, 0) > self.tree.quota[level].get(resource, 0)

    def is_own_borrowing(self, queue: str, resource: str) -> bool:
        """Tells whether the own jobs of a queue with children hold more of a resource than its own nominal quota."""
        return self.usage.own(queue).get(resource, 0) > charge(self.tree.queues[queue].nominal, resource)

    def _weight(self, queue: str) -> int:
        declared = self.tree.queues.get(queue)
        return 1 if declared is None else max(declared.weight, 1)

    def _share(self, held: Amounts, past: Amounts, weight: int) -> int:
        share = 0
        for resource, capacity in self.capacity.items():
            if used := held.get(resource, 0):
                share = max(share, used * MILLIONTHS // (capacity * weight))
            if before := past.get(resource, 0):
                share = max(share, (used * SCALE + before) * MILLIONTHS // (capacity * weight * SCALE))
        return share


def can_reclaim(shares: Shares, taker: str, loser: str, request: Amounts, victim: Amounts | None = None) -> bool:
    """Tells whether a gang of queue `loser` may be stopped so that one of queue `taker` gets `request`.

    `shares` include this victim, and exclude those chosen before it. `victim` is its holdings; None: not checked.
    Where the paths of the two queues part, the taker's branch must stay within its quota with the request, and the
    loser's branch, as every queue from there down to the loser, must borrow a resource that is requested and that the
    victim holds. So the taker's branch goes before the loser's, now and afterwards.
    """
    tree = shares.tree
    taker_path, loser_path, meeting = _branches(tree, taker, loser)
    if not meeting or taker == loser:
        return False
    stays = (
        shares.is_within_quota(taker, taker_path[-1], request)
        if taker_path
        else shares.is_own_within_quota(taker, request)
    )
    return stays and any(
        charge(request, name) > 0
        and (victim is None or charge(victim, name) > 0)
        and (
            all(shares.is_borrowing(level, name) for level in loser_path)
            if loser_path
            else shares.is_own_borrowing(loser, name)
        )
        and _borrows_itself(shares, loser, name)
        for name in tree.contested_resources[meeting]
    )


def can_reclaim_all(shares: Shares, taker: str, request: Amounts, victims: Sequence[tuple[str, str, Amounts]]) -> bool:
    """Tells whether all these gangs (queue, user, holdings) may be stopped, in this order, for one that is to start.

    In addition to `can_reclaim` for each, no queue above both sides may borrow more than before. So the borrowed
    amounts, summed level by level, shrink at the highest level that a reclaim touches, and grow at none above it: no
    sequence of reclaims returns to its beginning.
    """
    tree, before = shares.tree, shares.usage
    after = before.copy()
    left = shares.follow(after)
    for queue, user, held in victims:
        if not can_reclaim(left, taker, queue, request, held):
            return False
        after.subtract(queue, user, held)
    after.add(taker, "", request)
    heights = [len(_branches(tree, taker, queue)[0]) for queue, _, _ in victims]
    return not any(
        after.charged(level).get(name, 0) > max(before.charged(level).get(name, 0), tree.quota[level].get(name, 0))
        for level, parent in pairwise(tree.path.get(taker, ())[max(heights, default=0) :])
        for name in tree.contested_resources[parent]
    )


def total_capacity(table: NodeTable) -> dict[str, int]:
    """Returns the capacity of all nodes, up or not, of resources in fair share, in the units of `queue_tree.charge`."""
    key = ("capacity of all",)
    found: dict[str, int] | None = table.derived.get(key)
    if found is None:
        found = {name: amount for name, amount in charges(_sums(table)).items() if amount and is_shared_out(name)}
        table.derived[key] = found
    return found


def _sums(table: NodeTable) -> Mapping[str, int]:
    if table.devices is None:
        return {name: sum(table.capacity[:, column].tolist()) for column, name in enumerate(table.resource_names)}
    # by declaration: for a shared GPU the table has the whole, its parts and its profiles in different columns
    sums: Counter[str] = Counter()
    for node in table.nodes:
        sums.update(node.capacity)
    return sums


def past_usage_by_queue(tree: Tree, past: Mapping[str, PastUsage]) -> dict[str, dict[str, int]]:
    """Returns the past usage of every queue and all below it, in 1/SCALE of the units of `queue_tree.charge`."""
    sums: dict[str, dict[str, int]] = {}
    for name, use in past.items():
        for level in tree.path.get(name, ()):
            there = sums.setdefault(level, {})
            for resource, amount in charges(use.amounts).items():
                there[resource] = there.get(resource, 0) + amount
    return sums


def _branches(tree: Tree, one: str, other: str) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Returns the paths of two queues below their common ancestor, and that ancestor; "" if in different trees.

    A path is empty if its queue is the ancestor itself: then its own jobs are the branch.
    """
    first, second, meeting = list(tree.path.get(one, ())), list(tree.path.get(other, ())), ""
    while first and second and first[-1] == second[-1]:
        meeting = first.pop()
        second.pop()
    return tuple(first), tuple(second), meeting


def _borrows_itself(shares: Shares, loser: str, resource: str) -> bool:
    """Tells whether own jobs may lose a resource: those of a queue with children only beyond its own nominal quota."""
    return loser not in shares.tree.children or shares.is_own_borrowing(loser, resource)
