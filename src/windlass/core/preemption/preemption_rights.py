"""Rights of a gang to preempt: which gangs it may stop, and whether quota and limits then admit it."""

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
    """Usage as the plan has it, changed by one search.

    `reserved_usage`: usage after all gangs that are being stopped have ended, plus the claims of gangs ahead.
    """

    def __init__(self, request: PreemptionRequest, usage: QueueUsage, reserved_usage: QueueUsage | None) -> None:
        self._request = request
        self._usage = usage.copy()
        self._usages = [self._usage] if reserved_usage is None else [self._usage, reserved_usage.copy()]
        self._shares = Shares(self._usage, {}, {})
        self._start = self._usage

    def mark_start(self) -> None:
        """Marks the point after which releases are those that the gang causes itself."""
        self._start = self._usage.copy()

    def release(self, *releases: VictimRelease) -> None:
        """Releases amounts of victims."""
        for (queue, user), (amounts, jobs) in _by_owner(releases).items():
            for usage in self._usages:
                usage.subtract(queue, user, amounts, jobs=jobs)

    def restore(self, *releases: VictimRelease) -> None:
        """Takes back a release."""
        for (queue, user), (amounts, jobs) in _by_owner(releases).items():
            for usage in self._usages:
                usage.add(queue, user, amounts, jobs=jobs)

    def release_expected(self, *releases: VictimRelease) -> None:
        """Releases amounts that `reserved_usage` already counts as released."""
        for (queue, user), (amounts, jobs) in _by_owner(releases).items():
            self._usage.subtract(queue, user, amounts, jobs=jobs)

    def add_request(self, gang: PendingGang, amounts: dict[str, int]) -> None:
        """Adds the usage of another gang that `reserved_usage` already includes."""
        self._usage.add(gang.queue, gang.user, amounts)

    def is_next(self) -> bool:
        """Tells whether no gang ahead waits for the same quota, which would get the released amounts."""
        return len(self._usages) == 1 or not blocked_by_claims(
            self._usages[1], self._request.gang.queue, self._request.amounts
        )

    def has_quota(self) -> bool:
        """Tells whether quota and limits admit the gang."""
        gang, request = self._request.gang, self._request.amounts
        if exceeds_available(self._usage, gang.queue, request) or find_limit(
            self._usage, gang.queue, gang.user, request
        ):
            return False
        return len(self._usages) == 1 or not blocked_by_claims(self._usages[1], gang.queue, request)

    def reason_to_shrink(self, release: VictimRelease) -> str:
        """Returns the reason for which a gang may be shrunk by this release; "" if it may not."""
        return reason_to_shrink(self._shares, self._request, release.run, release.amounts)

    def stop_first(self, group: Sequence[VictimRelease]) -> tuple[int, str]:
        """Releases as many of a group, from the first on, as may be stopped in turn. Returns number and reason.

        The group is of one queue and one user, on one side of the gang's priority, and holds the same kinds of
        resources: each release leaves less to take from the next, so the last permitted one is found by bisection.
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
        """Tells whether all chosen may go, each with the others gone: by priority first, then by reclaim."""
        usage = self._start.copy()
        shares, reclaimed = Shares(usage, {}, {}), []
        for release, reason in chosen:
            if reason.startswith(BORROWED):
                reclaimed.append((release.run.queue, release.run.user, release.amounts))
            elif (reason_to_stop if release.whole else reason_to_shrink)(
                shares, self._request, release.run, release.amounts
            ):
                usage.subtract(release.run.queue, release.run.user, release.amounts)
            else:
                return False
        return not reclaimed or can_reclaim_all(shares, self._request.gang.queue, self._request.amounts, reclaimed)

    def depends_on(self, release: VictimRelease) -> bool:
        """Tells whether this release can affect the entitlement of the gang's queue: they share a branch."""
        mine, theirs = self._path(self._request.gang.queue), self._path(release.run.queue)
        return len(mine) > 1 and len(theirs) > 1 and mine[-2] == theirs[-2]

    def has_inner_queues(self) -> bool:
        """Tells whether queues between the gang's own and the root could borrow more than before."""
        return len(self._path(self._request.gang.queue)) > 2

    def _path(self, queue: str) -> Sequence[str]:
        return self._usage.tree.path.get(queue, ())


def _by_owner(given: Sequence[VictimRelease]) -> dict[tuple[str, str], tuple[dict[str, int], int]]:
    """Returns, by queue and user, the amounts and the number of jobs."""
    sums: dict[tuple[str, str], tuple[dict[str, int], int]] = {}
    for each in given:
        owner = each.run.queue, each.run.user
        amounts, jobs = sums.get(owner, ({}, 0))
        for name, amount in each.amounts.items():
            amounts[name] = amounts.get(name, 0) + amount
        sums[owner] = amounts, jobs + each.whole
    return sums
