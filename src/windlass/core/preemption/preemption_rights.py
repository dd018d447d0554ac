"""What a gang may take from whom, and whether quota and limits let it in once it has: the usage of one search."""

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

    `reserved_usage`: what is held once all have gone that are going, and what gangs that go first will take.
    """

    def __init__(self, request: PreemptionRequest, usage: QueueUsage, reserved_usage: QueueUsage | None) -> None:
        self._request = request
        self._usage = usage.copy()
        self._usages = [self._usage] if reserved_usage is None else [self._usage, reserved_usage.copy()]
        self._shares = Shares(self._usage, {}, {})
        self._start = self._usage

    def mark_start(self) -> None:
        """From now on it is about those that the gang takes itself."""
        self._start = self._usage.copy()

    def release(self, *releases: VictimRelease) -> None:
        """All this is given back."""
        for (queue, user), (amounts, jobs) in _by_owner(releases).items():
            for usage in self._usages:
                usage.give_back(queue, user, amounts, jobs=jobs)

    def restore(self, *releases: VictimRelease) -> None:
        """It is not."""
        for (queue, user), (amounts, jobs) in _by_owner(releases).items():
            for usage in self._usages:
                usage.take(queue, user, amounts, jobs=jobs)

    def release_expected(self, *releases: VictimRelease) -> None:
        """All this is given back already, as `reserved_usage` has it."""
        for (queue, user), (amounts, jobs) in _by_owner(releases).items():
            self._usage.give_back(queue, user, amounts, jobs=jobs)

    def take(self, gang: PendingGang, amounts: dict[str, int]) -> None:
        """Another gang takes this, for which `reserved_usage` has it already."""
        self._usage.take(gang.queue, gang.user, amounts)

    def is_next(self) -> bool:
        """Whether no gang that goes first waits for the same quota: it would get what others give back."""
        return len(self._usages) == 1 or not blocked_by_claims(
            self._usages[1], self._request.gang.queue, self._request.amounts
        )

    def has_quota(self) -> bool:
        """Whether quota and limits do."""
        gang, request = self._request.gang, self._request.amounts
        if exceeds_available(self._usage, gang.queue, request) or find_limit(
            self._usage, gang.queue, gang.user, request
        ):
            return False
        return len(self._usages) == 1 or not blocked_by_claims(self._usages[1], gang.queue, request)

    def reason_to_shrink(self, release: VictimRelease) -> str:
        """Why a gang may be made smaller by so much, in words; "" if it may not."""
        return reason_to_shrink(self._shares, self._request, release.run, release.amounts)

    def stop_first(self, group: Sequence[VictimRelease]) -> tuple[int, str]:
        """How many of these, from the first on, may be stopped one after the other, and why; they give it back then.

        All are of one queue and one user, on one side of the gang's priority, and hold the same kinds of resources:
        as each of them leaves less to take from the next, the last one that may go is found by bisection.
        """
        low, high, middle, reason = 0, len(group), len(group), ""
        while low < high:
            self.release(*group[low : middle - 1])
            last = group[middle - 1]
            if why := reason_to_stop(self._shares, self._request, last.run, last.amounts):
                self.release(last)
                low, reason = middle, why
            else:
                self.restore(*group[low : middle - 1])
                high = middle - 1
            middle = (low + high + 1) // 2
        return low, reason

    def allows_all(self, chosen: Iterable[tuple[VictimRelease, str]]) -> bool:
        """Whether all of these may go, each with the others gone: first those by priority, then those by reclaim."""
        usage = self._start.copy()
        shares, reclaimed = Shares(usage, {}, {}), []
        for release, reason in chosen:
            if reason.startswith(BORROWED):
                reclaimed.append((release.run.queue, release.run.user, release.amounts))
            elif (reason_to_stop if release.whole else reason_to_shrink)(
                shares, self._request, release.run, release.amounts
            ):
                usage.give_back(release.run.queue, release.run.user, release.amounts)
            else:
                return False
        return not reclaimed or can_reclaim_all(shares, self._request.gang.queue, self._request.amounts, reclaimed)

    def depends_on(self, release: VictimRelease) -> bool:
        """Whether it may matter to what the gang's queue is entitled to that this one goes: they share a branch."""
        mine, theirs = self._path(self._request.gang.queue), self._path(release.run.queue)
        return len(mine) > 1 and len(theirs) > 1 and mine[-2] == theirs[-2]

    def has_inner_queues(self) -> bool:
        """Whether queues between the gang's own and the root could come to borrow more."""
        return len(self._path(self._request.gang.queue)) > 2

    def _path(self, queue: str) -> Sequence[str]:
        return self._usage.tree.path.get(queue, ())


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
