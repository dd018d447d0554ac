"""Whose turn it is: within a queue by the policy's order (`core.model.policy`), between queues by fair share."""

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
    """Yields gangs by their turn until every line is through: not one of each queue, but all.

    A line that is dropped yields no more, for equals would get the same answer: a turn of a thousand equal gangs
    costs as much as one of a single gang.

    With `shares`, the next gang is found down the tree of queues (`core.queues.fair_share_tree`). `classes`: a
    higher priority then
    goes first in whatever queue it is, after those who borrow nothing; else priority counts within a queue alone.
    `fill`: gangs of a queue go in the order in which they fill gaps.
    """

    def __init__(
        self,
        lines: Iterable[EquivalenceClass],
        shares: Shares | None = None,
        *,
        classes: bool = False,
        fill: bool = False,
    ) -> None:
        self._lines = list(lines)
        self._shares = shares
        self._classes = classes
        self._fill = fill
        self._longest: int | None = None
        self._field: ClassHeap | FairShareTree

    def __iter__(self) -> Iterator[PendingGang]:
        self._field = self._field_of(self._lines)
        while (head := self._field.first()) is not None:
            self._longest = None
            yield head.gang
            self._field.pass_on(self._longest)

    @property
    def line(self) -> EquivalenceClass:
        """The line of the gang that was yielded last."""
        return self._field.line

    def drop(self) -> None:
        """Leave out the rest of that line."""
        self._longest = NO_WALLTIME

    def only_shorter(self, longest: int) -> None:
        """Of the rest of that line, go on with gangs whose walltime is at most this, in ms."""
        self._longest = longest

    def _field_of(self, lines: list[EquivalenceClass]) -> ClassHeap | FairShareTree:
        queues = {line.gangs[0].queue for line in lines}
        if self._shares is None or len(queues) < 2:
            return ClassHeap(lines, fill=self._fill)
        sides: dict[str, tuple[list[EquivalenceClass], list[EquivalenceClass]]] = {}
        for line in lines:
            gang = line.gangs[0]
            sides.setdefault(gang.queue, ([], []))[_has_to_borrow_more(self._shares.accounts, gang)].append(line)
        heads = {queue: [ClassHeap(some, fill=self._fill) for some in both if some] for queue, both in sides.items()}
        return FairShareTree(self._shares, heads, classes=self._classes)


def _has_to_borrow_more(accounts: QueueUsage, gang: PendingGang) -> bool:
    """Whether it is too large for its queue's own quota, and more than it could borrow now.

    Such a gang does not speak for those of its queue who stay within that quota: it cannot start before them anyway.
    """
    return claim_queue(accounts.tree, gang.queue, gang.request) != gang.queue and bool(
        exceeds_available(accounts, gang.queue, gang.request)
    )


def iterate_by_fair_share(lines: Iterable[EquivalenceClass], shares: Shares, *, classes: bool) -> Iterator[str]:
    """Ids in the order in which a contest would ask them if each of them started."""
    accounts = shares.accounts.copy()
    for gang in QueueOrder(lines, shares.follow(accounts), classes=classes):
        yield gang.id
        accounts.take(gang.queue, gang.user, gang.whole)


class LazyOrder(Sequence[str]):
    """Ids of gangs, put in order when somebody looks."""

    def __init__(self, ids: Callable[[], Iterable[str]]) -> None:
        self._given = ids

    @cached_property
    def _ids(self) -> tuple[str, ...]:
        return tuple(self._given())

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._ids[index]

    def __len__(self) -> int:
        return len(self._ids)
