"""What a gang may take from whom, and whether quota and limits let it in once it has: the accounts of one search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from windlass.core.model.gang import PendingGang
from windlass.core.preemption.preemption_simulation import VictimRelease
from windlass.core.preemption.victims import BORROWED, PreemptionRequest, reason_to_shrink, reason_to_stop
from windlass.core.queues.fair_share import Shares, can_reclaim_all
from windlass.core.queues.limits import find_limit
from windlass.core.queues.quota import blocked_by_claims, exceeds_available
from windlass.core.queues.usage import QueueUsage


class PreemptionRights:
    """Begins as the plan has it.

    `spoken_for`: what is held once all have gone that are going, and what gangs that go first will take.
    """

    def __init__(self, asked: PreemptionRequest, accounts: QueueUsage, spoken_for: QueueUsage | None) -> None:
        self._asked = asked
        self._accounts = accounts.copy()
        self._books = [self._accounts] if spoken_for is None else [self._accounts, spoken_for.copy()]
        self._shares = Shares(self._accounts, {}, {})
        self._start = self._accounts

    def begin(self) -> None:
        """From now on it is about those that the gang takes itself."""
        self._start = self._accounts.copy()

    def give(self, *given: VictimRelease) -> None:
        """All this is given back."""
        for (queue, user), (amounts, jobs) in _by_owner(given).items():
            for books in self._books:
                books.give_back(queue, user, amounts, jobs=jobs)

    def undo(self, *given: VictimRelease) -> None:
        """It is not."""
        for (queue, user), (amounts, jobs) in _by_owner(given).items():
            for books in self._books:
                books.take(queue, user, amounts, jobs=jobs)

    def expect(self, *given: VictimRelease) -> None:
        """All this is given back already, as `spoken_for` has it."""
        for (queue, user), (amounts, jobs) in _by_owner(given).items():
            self._accounts.give_back(queue, user, amounts, jobs=jobs)

    def take(self, gang: PendingGang, amounts: dict[str, int]) -> None:
        """Another gang takes this, for which `spoken_for` has it already."""
        self._accounts.take(gang.queue, gang.user, amounts)

    def is_next(self) -> bool:
        """Whether no gang that goes first waits for the same quota: it would get what others give back."""
        return len(self._books) == 1 or not blocked_by_claims(
            self._books[1], self._asked.gang.queue, self._asked.request
        )

    def lets_in(self) -> bool:
        """Whether quota and limits do."""
        gang, request = self._asked.gang, self._asked.request
        if exceeds_available(self._accounts, gang.queue, request) or find_limit(
            self._accounts, gang.queue, gang.user, request
        ):
            return False
        return len(self._books) == 1 or not blocked_by_claims(self._books[1], gang.queue, request)

    def to_shrink(self, given: VictimRelease) -> str:
        """Why a gang may be made smaller by so much, in words; "" if it may not."""
        return reason_to_shrink(self._shares, self._asked, given.run, given.amounts)

    def stop(self, group: Sequence[VictimRelease]) -> tuple[int, str]:
        """How many of these, from the first on, may be stopped one after the other, and why; they give it back then.

        All are of one queue and one user, on one side of the gang's priority, and hold the same kinds of resources:
        as each of them leaves less to take from the next, the last one that may go is found by bisection.
        """
        low, high, middle, reason = 0, len(group), len(group), ""
        while low < high:
            self.give(*group[low : middle - 1])
            last = group[middle - 1]
            if why := reason_to_stop(self._shares, self._asked, last.run, last.amounts):
                self.give(last)
                low, reason = middle, why
            else:
                self.undo(*group[low : middle - 1])
                high = middle - 1
            middle = (low + high + 1) // 2
        return low, reason

    def covers(self, chosen: Iterable[tuple[VictimRelease, str]]) -> bool:
        """Whether all of these may go, each with the others gone: first those by priority, then those by reclaim."""
        books = self._start.copy()
        shares, reclaimed = Shares(books, {}, {}), []
        for given, reason in chosen:
            if reason.startswith(BORROWED):
                reclaimed.append((given.run.queue, given.run.user, given.amounts))
            elif (reason_to_stop if given.whole else reason_to_shrink)(shares, self._asked, given.run, given.amounts):
                books.give_back(given.run.queue, given.run.user, given.amounts)
            else:
                return False
        return not reclaimed or can_reclaim_all(shares, self._asked.gang.queue, self._asked.request, reclaimed)

    def depends_on(self, given: VictimRelease) -> bool:
        """Whether it may matter to what the gang's queue is entitled to that this one goes: they share a branch."""
        mine, theirs = self._path(self._asked.gang.queue), self._path(given.run.queue)
        return len(mine) > 1 and len(theirs) > 1 and mine[-2] == theirs[-2]

    def is_deep(self) -> bool:
        """Whether queues between the gang's own and the root could come to borrow more."""
        return len(self._path(self._asked.gang.queue)) > 2

    def _path(self, queue: str) -> Sequence[str]:
        return self._accounts.tree.path.get(queue, ())


def _by_owner(given: Sequence[VictimRelease]) -> dict[tuple[str, str], tuple[dict[str, int], int]]:
    """By queue and user: the amounts, and how many jobs that is."""
    sums: dict[tuple[str, str], tuple[dict[str, int], int]] = {}
    for each in given:
        owner = each.run.queue, each.run.user
        amounts, jobs = sums.get(owner, ({}, 0))
        for name, amount in each.amounts.items():
            amounts[name] = amounts.get(name, 0) + amount
        sums[owner] = amounts, jobs + each.whole
    return sums
