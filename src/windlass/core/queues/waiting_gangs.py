"""Waiting gangs, grouped incrementally into equivalence classes in queue order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from windlass.core.model.gang import ClassKey, EquivalenceClass, PendingGang, SortKey, class_key_of
from windlass.core.model.policy import Policy
from windlass.core.queues.orders.registry import backfill_sort_key_of, has_backfill_order, sort_key_of


class WaitingGangs:
    """Waiting gangs by id and by class. A class that does not change is one object in every call of `classes`."""

    def __init__(self, policy: Policy, classes: Sequence[EquivalenceClass] = ()) -> None:
        self._policy = policy
        self._gangs = {gang.id: gang for each in classes for gang in each.gangs}
        self._frozen = {class_key_of(each.gangs[0]): each for each in classes}
        """The classes as the last call of `classes` returned them, except those in `_stale`."""
        self._classes = {key: _MutableClass(each) for key, each in self._frozen.items()}
        self._stale: dict[ClassKey, None] = {}
        """Keys in the order of their changes, so that a snapshot does not depend on the hashes of keys."""

    def get(self, job_id: str) -> PendingGang | None:
        """Returns a waiting gang; None if it does not wait."""
        return self._gangs.get(job_id)

    def add(self, gang: PendingGang) -> None:
        """Adds a gang that does not wait yet."""
        self._gangs[gang.id] = gang
        self._enqueue(gang)

    def remove(self, job_id: str) -> PendingGang | None:
        """Removes and returns a waiting gang; does nothing and returns None if it does not wait."""
        gang = self._gangs.pop(job_id, None)
        if gang is None:
            return None
        key = class_key_of(gang)
        waiting = self._classes[key]
        waiting.remove(gang, self._policy)
        if not waiting.gangs:
            del self._classes[key]
        self._mark_changed(key)
        return gang

    def open_begin_times(self, now: int) -> int:
        """Groups gangs whose begin time has come with gangs that had none. Returns their number."""
        opened = [gang for each in self._classes.values() for gang in each.gangs if gang.has_begun(now)]
        for gang in opened:
            self.remove(gang.id)
            self.add(replace(gang, begin=None))
        return len(opened)

    def sort_by(self, policy: Policy) -> None:
        """Groups and sorts all gangs again, by the order of another policy."""
        self._policy = policy
        self._classes, self._frozen = {}, {}
        for gang in self._gangs.values():
            self._enqueue(gang)

    def classes(self) -> tuple[EquivalenceClass, ...]:
        """Returns all classes; those that changed last are the last ones."""
        for key in self._stale:
            if key in self._classes:
                self._frozen[key] = self._classes[key].freeze()
        self._stale.clear()
        return tuple(self._frozen.values())

    def _enqueue(self, gang: PendingGang) -> None:
        key = class_key_of(gang)
        if key not in self._classes:
            self._classes[key] = _MutableClass()
        self._classes[key].add(gang, self._policy)
        self._mark_changed(key)

    def _mark_changed(self, key: ClassKey) -> None:
        self._frozen.pop(key, None)
        self._stale[key] = None


class _MutableClass:
    """An equivalence class that changes: its gangs in queue order, and in backfill order if that differs."""

    def __init__(self, eq_class: EquivalenceClass | None = None) -> None:
        self.sort_keys, self.gangs = (list(eq_class.sort_keys), list(eq_class.gangs)) if eq_class else ([], [])
        self._backfill_sort_keys: list[SortKey] = []
        self._backfill: list[PendingGang] = []
        if eq_class and eq_class.backfill is not eq_class.gangs:
            self._backfill_sort_keys, self._backfill = list(eq_class.backfill_sort_keys), list(eq_class.backfill)

    def add(self, gang: PendingGang, policy: Policy) -> None:
        key = sort_key_of(gang, policy)
        place = bisect_left(self.sort_keys, key)
        self.sort_keys.insert(place, key)
        self.gangs.insert(place, gang)
        if has_backfill_order(policy):
            key = backfill_sort_key_of(gang, policy)
            place = bisect_left(self._backfill_sort_keys, key)
            self._backfill_sort_keys.insert(place, key)
            self._backfill.insert(place, gang)

    def remove(self, gang: PendingGang, policy: Policy) -> None:
        place = bisect_left(self.sort_keys, sort_key_of(gang, policy))
        del self.sort_keys[place], self.gangs[place]
        if has_backfill_order(policy):
            place = bisect_left(self._backfill_sort_keys, backfill_sort_key_of(gang, policy))
            del self._backfill_sort_keys[place], self._backfill[place]

    def freeze(self) -> EquivalenceClass:
        gangs, keys = tuple(self.gangs), tuple(self.sort_keys)
        if not self._backfill:
            return EquivalenceClass(gangs, keys, gangs, keys)
        return EquivalenceClass(gangs, keys, tuple(self._backfill), tuple(self._backfill_sort_keys))
