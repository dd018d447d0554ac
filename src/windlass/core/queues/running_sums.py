"""Sums over the running gangs: usage by queue and user, and counts by array and by priority."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

from windlass.core.model.gang import RunningGang, total_of
from windlass.core.model.queue import Queue
from windlass.core.model.snapshot import Snapshot, UserUsage


class RunningSums:
    """Sums that change with each gang that starts or ends. A snapshot shares the collections until `unshare`."""

    def __init__(self) -> None:
        self.by_queue: dict[str, dict[str, int]] = {}
        """By queue: usage."""
        self.by_user: dict[tuple[str, str], UserUsage] = {}
        """By queue and user: usage and number of jobs."""
        self.by_array: dict[str, int] = {}
        """By array: number of its members that hold nodes."""
        self.by_priority: dict[tuple[str, int], int] = {}
        """By queue and priority: number of running gangs."""

    @classmethod
    def at(cls, snapshot: Snapshot) -> RunningSums:
        """Returns the sums of a snapshot, as copies, without the excess that `charge_excess` has added."""
        sums = cls()
        sums.by_queue = {queue: dict(held) for queue, held in snapshot.usage_by_queue.items()}
        sums.by_user, sums.by_array = dict(snapshot.usage_by_user), dict(snapshot.running_by_array)
        sums.by_priority = dict(snapshot.running_by_priority)
        for queue in snapshot.queues.values():
            for user, amounts in queue.excess.items():
                sums.charge(queue.name, user, amounts, -1)
        return sums

    def charge_excess(self, queues: Mapping[str, Queue]) -> RunningSums:
        """Returns the sums with the usage of each queue that is beyond what its gangs hold; these, if there is none."""
        exceeding = [each for each in queues.values() if each.excess]
        if not exceeding:
            return self
        sums = copy(self)
        sums.unshare()
        for queue in exceeding:
            for user, amounts in queue.excess.items():
                sums.charge(queue.name, user, amounts, 1)
        return sums

    def unshare(self) -> None:
        """Copies the collections, so that the next changes are not visible in the last snapshot."""
        self.by_queue, self.by_user = self.by_queue.copy(), self.by_user.copy()
        self.by_array, self.by_priority = self.by_array.copy(), self.by_priority.copy()

    def count(self, gang: RunningGang, sign: int) -> None:
        """Adds (1) or subtracts (-1) a gang."""
        self.charge(gang.queue, gang.user, total_of(gang.demands), sign, jobs=sign)
        if gang.array_id:
            self.by_array[gang.array_id] = self.by_array.get(gang.array_id, 0) + sign
            if not self.by_array[gang.array_id]:
                del self.by_array[gang.array_id]
        level = gang.queue, gang.priority
        self.by_priority[level] = self.by_priority.get(level, 0) + sign
        if not self.by_priority[level]:
            del self.by_priority[level]

    def charge(self, queue: str, user: str, amounts: Mapping[str, int], sign: int, *, jobs: int = 0) -> None:
        """Adds (1) or subtracts (-1) amounts of a user in a queue; `jobs` are added."""
        usage = _changed(self.by_queue.pop(queue, {}), amounts, sign)
        if usage:
            self.by_queue[queue] = usage
        before = self.by_user.pop((queue, user), UserUsage(0, {}))
        after = UserUsage(before.jobs + jobs, _changed(before.amounts, amounts, sign))
        if after.jobs or after.amounts:
            self.by_user[queue, user] = after


def _changed(amounts: Mapping[str, int], by: Mapping[str, int], sign: int) -> dict[str, int]:
    """Returns a new sum, without zeros."""
    after = dict(amounts)
    for name, amount in by.items():
        after[name] = after.get(name, 0) + sign * amount
        if not after[name]:
            del after[name]
    return after
