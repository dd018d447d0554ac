"""Shares of a plan's budget of failed attempts, so that the gangs of one tenant cannot spend it for all others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from windlass.core.model.gang import EquivalenceClass, PendingGang


class AttemptBudget:
    """Failed attempts that are left: `total`, shared evenly between queues, and in a queue between its users.

    Shares that a queue or user cannot need go to the others, so that a single one has all. `least`: minimum share of a
    queue, even beyond `total`.
    """

    def __init__(self, total: int, classes: Iterable[EquivalenceClass], least: int = 0) -> None:
        waiting: dict[str, dict[str, int]] = {}
        for each in classes:
            gang = each.gangs[0]
            users = waiting.setdefault(gang.queue, {})
            users[gang.user] = users.get(gang.user, 0) + len(each.gangs)
        shares = share_evenly(total, {queue: sum(users.values()) for queue, users in waiting.items()})
        self._of_queue = {queue: max(least, 1, share) for queue, share in shares.items()}
        self._of_user = {
            (queue, user): max(1, share)
            for queue, users in waiting.items()
            for user, share in share_evenly(self._of_queue[queue], users).items()
        }

    def has_left(self, gang: PendingGang) -> bool:
        """Whether one more attempt for a gang may fail."""
        return self._of_queue.get(gang.queue, 0) > 0 and self._of_user.get((gang.queue, gang.user), 0) > 0

    def spend(self, gang: PendingGang) -> None:
        """Counts a failed attempt."""
        self._of_queue[gang.queue] = self._of_queue.get(gang.queue, 0) - 1
        self._of_user[gang.queue, gang.user] = self._of_user.get((gang.queue, gang.user), 0) - 1


def share_evenly(total: int, wanted: Mapping[str, int]) -> dict[str, int]:
    """Returns shares of `total` by max-min fairness: no share exceeds what is wanted, and none is needlessly small."""
    shares: dict[str, int] = {}
    for number, name in enumerate(sorted(wanted, key=lambda name: wanted[name])):
        shares[name] = min(wanted[name], total // (len(wanted) - number))
        total -= shares[name]
    return shares
