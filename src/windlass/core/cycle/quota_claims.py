"""Usage of quota in one scheduling cycle: what its starts take, and the claims of gangs that it blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from windlass.core.model.gang import PendingGang, total_of
from windlass.core.model.snapshot import Snapshot
from windlass.core.queues.quota import blocked_by_claims, claim_queue, exceeds_available, exceeds_own_quota
from windlass.core.queues.usage import QueueUsage

if TYPE_CHECKING:
    from windlass.core.preemption.preemption_simulation import VictimRelease
    from windlass.core.preemption.victim_search import Eviction


class QuotaClaims:
    """Claims on quota beside the `usage` of a cycle, which is the usage of running gangs and of those that it starts.

    `evictions`: by id of a gang, the release of other gangs for which it waits; the cycle adds to it.
    """

    def __init__(self, snapshot: Snapshot, usage: QueueUsage, evictions: Mapping[str, Eviction]) -> None:
        self._snapshot, self._usage, self._evictions = snapshot, usage, evictions
        self.reserved_usage: QueueUsage | None = None
        """Usage once all leaving gangs have gone and blocked gangs have taken their claims; None: no gang waits for
        quota."""
        self.first: dict[str, PendingGang] = {}
        """By queue: the first gang that has a claim on its quota."""

    def is_limited(self, queue: str) -> bool:
        """Whether the queue or one above it limits any resource."""
        return bool(self._usage.tree.limited_resources.get(queue))

    def lacks_quota(self, gang: PendingGang, request: Mapping[str, int]) -> bool:
        """Tells whether quota does not admit this request of a gang, after the claims of gangs ahead."""
        is_claimed = self.reserved_usage is not None and blocked_by_claims(self.reserved_usage, gang.queue, request)
        if is_claimed or exceeds_available(self._usage, gang.queue, request):
            return True
        return not gang.preemptible and self.lacks_own_quota(gang, request)

    def lacks_own_quota(self, gang: PendingGang, request: Mapping[str, int] | None = None) -> bool:
        """Tells whether a gang that is not preemptible would have to borrow, after the claims of such gangs ahead."""
        return bool(exceeds_own_quota(self._claimed_firm, gang.queue, request or gang.minimum_request)[0])

    @cached_property
    def firm(self) -> QueueUsage:
        """Usage of the gangs that are not preemptible. Only what is their queue's own suffices for another one."""
        firm = QueueUsage(self._usage.tree, {}, {})
        for run in self._snapshot.running.values():
            if not run.preemptible:
                firm.add(run.queue, run.user, total_of(run.demands))
        return firm

    @cached_property
    def _claimed_firm(self) -> QueueUsage:
        """The same with the claims of such gangs that are blocked."""
        return self.firm.copy()

    def add_start(self, gang: PendingGang, request: Mapping[str, int]) -> None:
        """Adds a gang that starts to the usage."""
        self._usage.add(gang.queue, gang.user, request)
        if not gang.preemptible:
            self._claimed_firm.add(gang.queue, gang.user, request)
            self.firm.add(gang.queue, gang.user, request)
        if self.reserved_usage is not None:
            self.reserved_usage.add(gang.queue, gang.user, request)

    def release(self, releases: Iterable[VictimRelease]) -> None:
        """Subtracts what gangs release for another gang from the reserved usage."""
        if self.reserved_usage is not None:
            _subtract(self.reserved_usage, releases)

    def claim(self, gang: PendingGang) -> None:
        """Keeps the quota that a blocked gang requests from later gangs."""
        if self.reserved_usage is None:
            from windlass.core.preemption.victim_search import expected_releases  # noqa: PLC0415 - rarely needed

            self.reserved_usage = self._usage.copy()
            releasing = self._snapshot.releasing
            _subtract(self.reserved_usage, expected_releases(self._snapshot, releasing, self._evictions.values()))
        request = gang.minimum_request
        queue = claim_queue(self._usage.tree, gang.queue, request)
        self.reserved_usage.add(queue, gang.user, request)
        if not gang.preemptible:
            self._claimed_firm.add(gang.queue, gang.user, request)
        self.first.setdefault(queue, gang)


def _subtract(usage: QueueUsage, releases: Iterable[VictimRelease]) -> None:
    for each in releases:
        usage.subtract(each.run.queue, each.run.user, each.amounts, jobs=int(each.whole))
