"""Order of waiting gangs: within a queue by the policy's order (`core.model.policy`), between queues by fair share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import overload

from windlass.core.model.gang import EquivalenceClass, PendingGang
from windlass.core.queues.class_heap import NO_WALLTIME, ClassHeap
from windlass.core.queues.fair_share import Shares
from windlass.core.queues.fair_share_tree import FairShareTree
from windlass.core.queues.quota import claim_queue, exceeds_available
from windlass.core.queues.usage import QueueUsage


class QueueOrder:
    """Iterator over gangs in the order in which they are considered, until every class is exhausted.

    A class that is dropped yields no more, because equal gangs get the same answer: a thousand equal gangs cost as much
    as one. With `shares`, the tree of queues selects the next gang (`core.queues.fair_share_tree`). `priority_first`: a
    higher priority goes first in whatever queue it is, after gangs that borrow nothing; otherwise priority counts
    within a queue only. `backfill`: gangs of a queue come in the order of backfilling.
    """

    def __init__(
        self,
        classes: Iterable[EquivalenceClass],
        shares: Shares | None = None,
        *,
        priority_first: bool = False,
        backfill: bool = False,
    ) -> None:
        self._classes = list(classes)
        self._shares = shares
        self._priority_first = priority_first
        self._backfill = backfill
        self._longest: int | None = None
        self._source: ClassHeap | FairShareTree

    def __iter__(self) -> Iterator[PendingGang]:
        self._source = self._source_of(self._classes)
        while (head := self._source.first()) is not None:
            self._longest = None
            yield head.gang
            self._source.advance(self._longest)

    @property
    def eq_class(self) -> EquivalenceClass:
        """The class of the gang that was yielded last."""
        return self._source.eq_class

    def drop(self) -> None:
        """Skips the rest of that class."""
        self._longest = NO_WALLTIME

    def only_shorter(self, longest: int) -> None:
        """Skips gangs of the rest of that class with a walltime above `longest` ms."""
        self._longest = longest

    def _source_of(self, classes: list[EquivalenceClass]) -> ClassHeap | FairShareTree:
        queues = {each.gangs[0].queue for each in classes}
        if self._shares is None or len(queues) < 2:
            return ClassHeap(classes, backfill=self._backfill)
        by_queue: dict[str, tuple[list[EquivalenceClass], list[EquivalenceClass]]] = {}
        for each in classes:
            gang = each.gangs[0]
            by_queue.setdefault(gang.queue, ([], []))[_exceeds_borrowing(self._shares.usage, gang)].append(each)
        heaps = {
            queue: [ClassHeap(some, backfill=self._backfill) for some in both if some]
            for queue, both in by_queue.items()
        }
        return FairShareTree(self._shares, heaps, priority_first=self._priority_first)


def _exceeds_borrowing(usage: QueueUsage, gang: PendingGang) -> bool:
    """Tells whether a gang is too large for its queue's own quota and for what it could borrow now.

    Such a gang does not represent the gangs of its queue that stay within that quota: it cannot start before them
    anyway.
    """
    return claim_queue(usage.tree, gang.queue, gang.minimum_request) != gang.queue and bool(
        exceeds_available(usage, gang.queue, gang.minimum_request)
    )


def iterate_by_fair_share(
    classes: Iterable[EquivalenceClass], shares: Shares, *, priority_first: bool
) -> Iterator[str]:
    """Yields ids in the order in which a QueueOrder would yield them if each gang started."""
    usage = shares.usage.copy()
    for gang in QueueOrder(classes, shares.follow(usage), priority_first=priority_first):
        yield gang.id
        usage.add(gang.queue, gang.user, gang.full_request)


class LazyOrder(Sequence[str]):
    """Ids of gangs, sorted on first access."""

    def __init__(self, ids: Callable[[], Iterable[str]]) -> None:
        self._compute = ids

    @cached_property
    def _ids(self) -> tuple[str, ...]:
        return tuple(self._compute())

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._ids[index]

    def __len__(self) -> int:
        return len(self._ids)
