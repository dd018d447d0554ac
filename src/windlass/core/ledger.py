"""The ledger: nodes, queues and gangs, updated incrementally; `Ledger.snapshot` is the input of `core.cycle`.

The only mutable part of the scheduler. A change costs time in proportion to the size of its gang; a snapshot shares
everything that has not changed since the last one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from windlass.core.model.gang import (
    ClassKey,
    Demand,
    EquivalenceClass,
    PendingGang,
    RunningGang,
    SortKey,
    class_key_of,
    total_of,
)
from windlass.core.model.node import Node, Topology
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.reservation import Reservation
from windlass.core.model.snapshot import Amounts, Grant, NodeTable, PastUsage, Snapshot, UserUsage
from windlass.core.nodes.allocation import allocate_grant, compute_grant, release_grant
from windlass.core.nodes.exclusive_rows import exclusive_names
from windlass.core.nodes.node_table import build_table, update_table
from windlass.core.placement.scores.demand_popularity import DemandPopularity
from windlass.core.placement.scores.registry import SCORES
from windlass.core.queues.decayed_usage import advance_usage
from windlass.core.queues.orders.registry import backfill_sort_key_of, has_backfill_order, sort_key_of

_MAX_CACHED_DEMANDS = 32_768
"""Entries of the cache of exclusive resources, which is emptied when it is full; equal requests share one entry."""


class Ledger:
    """Nodes, queues, running gangs with their usage, and waiting gangs.

    Every change is idempotent. `version` grows with each change of nodes, queues, settings or gangs. A change of past
    usage alone does not count: it calls for no new plan.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        queues: Iterable[Queue],
        topology: Topology | None = None,
        policy: Policy | None = None,
        reservations: Iterable[Reservation] = (),
        past_usage: Mapping[str, PastUsage] | None = None,
    ) -> None:
        self.version = 0
        self._policy = policy or Policy()
        self._popularity = DemandPopularity()
        self._reservations = tuple(reservations)
        self._table = build_table(nodes, topology or Topology(), epoch=0)
        self._queues = {queue.name: queue for queue in queues}
        self._free: Amounts = self._table.capacity.copy(order="F")
        self._running: dict[str, RunningGang] = {}
        self._grants: dict[str, Grant] = {}
        self._usage_by_queue: dict[str, dict[str, int]] = {}
        self._usage_by_user: dict[tuple[str, str], UserUsage] = {}
        self._past_usage: dict[str, PastUsage] = dict(past_usage or {})
        self._running_by_array: dict[str, int] = {}
        """By array: number of its members that hold nodes."""
        self._running_by_priority: dict[tuple[str, int], int] = {}
        """By queue and priority: number of running gangs."""
        self._elastic_or_stopping: dict[str, RunningGang] = {}
        """By id: running gangs that are elastic, being stopped or being resized."""
        self._exclusive_request_counts: dict[str, int] = {}
        """By exclusive resource: number of gangs, waiting or running, that request it. Never changed in place."""
        self._exclusives: dict[int, tuple[tuple[Demand, ...], frozenset[str]]] = {}
        """Cache: id(demands) -> (demands, their exclusive resources); keeping demands prevents id reuse."""
        self._whole_nodes: set[str] | None = None
        """Ids of running gangs that hold whole nodes; None: not computed yet."""
        self._walltime_ends: list[tuple[int, str]] = []
        self._pending: dict[str, PendingGang] = {}
        self._waiting: dict[ClassKey, _MutableClass] = {}
        self._frozen_classes: dict[ClassKey, EquivalenceClass] = {}
        """The classes as snapshots have them, except those in `_stale`."""
        self._stale: dict[ClassKey, None] = {}
        """Keys in the order of their changes, so that a snapshot does not depend on the hashes of keys."""
        self._last: Snapshot | None = None
        self._frozen = False
        """The last snapshot shares the collections (`_free`, `_running`, `_grants` …): copy them before writing."""

    @classmethod
    def at(cls, snapshot: Snapshot) -> Ledger:
        """Returns a ledger in the state of a snapshot, for dry runs; the snapshot does not change."""
        ledger = cls((), snapshot.queues.values(), None, snapshot.policy, snapshot.reservations)
        ledger.version = snapshot.version
        ledger._table, ledger._free = snapshot.table, snapshot.free
        ledger._running, ledger._running_by_array = dict(snapshot.running), dict(snapshot.running_by_array)
        ledger._grants = dict(snapshot.grants)
        ledger._walltime_ends = list(snapshot.walltime_ends)
        ledger._usage_by_queue = {queue: dict(held) for queue, held in snapshot.usage_by_queue.items()}
        ledger._usage_by_user, ledger._past_usage = dict(snapshot.usage_by_user), dict(snapshot.past_usage)
        ledger._running_by_priority, ledger._elastic_or_stopping = (
            dict(snapshot.running_by_priority),
            dict(snapshot.elastic_or_stopping),
        )
        ledger._exclusive_request_counts = dict(snapshot.exclusive_request_counts)
        ledger._pending = {gang.id: gang for each in snapshot.classes for gang in each.gangs}
        ledger._frozen_classes = {class_key_of(each.gangs[0]): each for each in snapshot.classes}
        ledger._waiting = {key: _MutableClass(each) for key, each in ledger._frozen_classes.items()}
        ledger._frozen = True
        return ledger

    # --- cluster -----------------------------------------------------------------------------------

    def set_cluster(
        self,
        nodes: Iterable[Node],
        queues: Iterable[Queue],
        topology: Topology | None = None,
        policy: Policy | None = None,
        reservations: Iterable[Reservation] = (),
    ) -> tuple[str, ...]:
        """Replaces nodes, queues and settings. Returns the nodes that vanished or were lost since the last call.

        Gangs keep what they hold on the remaining nodes until they are released.
        """
        before = self._table
        after = update_table(before, nodes, topology or Topology(), before.epoch + 1, self._contended_resources)
        wanted, rules = {queue.name: queue for queue in queues}, (policy or Policy(), tuple(reservations))
        same = (after.nodes, after.topology, wanted) == (before.nodes, before.topology, self._queues)
        if same and rules == (self._policy, self._reservations):
            return ()
        self._thaw()
        if rules[0] != self._policy:
            self._resort(rules[0])
        self._table = after
        if wanted != self._queues:
            self._queues = wanted
        self._policy, self._reservations = rules
        if after.row is before.row:
            self._refit(before.capacity)
            pairs = zip(before.nodes, after.nodes, strict=True)
            return tuple(old.name for old, new in pairs if new.lost and not old.lost)
        self._regrant()
        there = {node.name for node in after.nodes if not node.lost}
        return tuple(node.name for node in before.nodes if node.name not in there and not node.lost)

    # --- time ------------------------------------------------------------------------------------------

    def accrue_usage(self, now: int) -> None:
        """Adds the usage until `now` (ms) to the past usage; call it before other changes at that time.

        `version` stays the same.
        """
        fading = [queue for queue in self._queues.values() if queue.half_life]
        if fading or self._past_usage:
            self._past_usage = {
                queue.name: advance_usage(
                    self._past_usage.get(queue.name), self._usage_by_queue.get(queue.name, {}), queue.half_life, now
                )
                for queue in fading
            }
            self._last = None

    @property
    def past_usage(self) -> Mapping[str, PastUsage]:
        """By queue that has a half-life: its past usage, to be stored for the next leader."""
        return self._past_usage

    # --- waiting gangs -----------------------------------------------------------------------------

    def add_pending(self, gang: PendingGang) -> None:
        """Adds a waiting gang, and releases what it held."""
        if self._pending.get(gang.id) == gang:
            return
        self.release(gang.id)
        self.remove_pending(gang.id)
        self._pending[gang.id] = gang
        if SCORES[self._policy.scoring].uses_typical_demands and not self._policy.typical_demands:
            self._popularity.count(gang.demands)
        self._enqueue(gang)
        self._count_exclusive_requests(gang.demands, 1)

    def remove_pending(self, job_id: str) -> None:
        """Removes a waiting gang; does nothing if it does not wait."""
        gang = self._pending.pop(job_id, None)
        if gang is None:
            return
        key = class_key_of(gang)
        self._count_exclusive_requests(gang.demands, -1)
        waiting = self._waiting[key]
        waiting.remove(gang, self._policy)
        if not waiting.gangs:
            del self._waiting[key]
        self._mark_changed(key)

    # --- running gangs -----------------------------------------------------------------------------

    def hold(self, gang: RunningGang, grant: Grant | None = None) -> None:
        """Makes a gang hold its placement; it no longer waits. `grant`: the amounts of the placement, if known."""
        if self._running.get(gang.id) == gang:
            return
        self.remove_pending(gang.id)
        self.release(gang.id)
        self._thaw()
        self._running[gang.id] = gang
        if gang.ends_by is not None:
            insort(self._walltime_ends, (gang.ends_by, gang.id))
        self._grant(gang, grant)
        self._count(gang, 1)
        self._count_exclusive_requests(gang.demands, 1)

    def release(self, job_id: str) -> None:
        """Removes a running gang and frees its grant; does nothing if it does not run."""
        if job_id not in self._running:
            return
        self._thaw()
        gang = self._running.pop(job_id)
        if gang.ends_by is not None:
            del self._walltime_ends[bisect_left(self._walltime_ends, (gang.ends_by, job_id))]
        release_grant(self._table, self._free, self._grants.pop(job_id))
        self._count(gang, -1)
        self._count_exclusive_requests(gang.demands, -1)

    @property
    def table(self) -> NodeTable:
        """The current node table: capacity and state of each node."""
        return self._table

    @property
    def free(self) -> Amounts:
        """int64[N, R]: free capacity now; read it, but do not keep it, because it changes in place."""
        return self._free

    # --- snapshots ---------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Returns the current state; the same object as before if nothing has changed."""
        if self._last is None or self._last.version != self.version:
            self._frozen = True
            self._free.flags.writeable = False
            for key in self._stale:
                if key in self._waiting:
                    self._frozen_classes[key] = self._waiting[key].freeze()
            self._stale.clear()
            self._last = Snapshot(
                version=self.version,
                table=self._table,
                free=self._free,
                queues=self._queues,
                usage_by_queue=self._usage_by_queue,
                running_by_array=self._running_by_array,
                classes=tuple(self._frozen_classes.values()),
                running=self._running,
                grants=self._grants,
                walltime_ends=tuple(self._walltime_ends),
                policy=self._policy_with_typical_demands(),
                reservations=self._reservations,
                usage_by_user=self._usage_by_user,
                past_usage=self._past_usage,
                running_by_priority=self._running_by_priority,
                elastic_or_stopping=self._elastic_or_stopping,
                exclusive_request_counts=self._exclusive_request_counts,
            )
        return self._last

    # --- incremental updates -----------------------------------------------------------------------

    def _policy_with_typical_demands(self) -> Policy:
        """Returns the policy, with the typical demands that were counted if the policy names none."""
        if self._policy.typical_demands or not self._popularity.typical:
            return self._policy
        return replace(self._policy, typical_demands=self._popularity.typical)

    def _thaw(self) -> None:
        """Copies what the last snapshot shares, before a change of usage."""
        self.version += 1
        if self._frozen:
            self._free = self._free.copy(order="F")
            self._running = self._running.copy()
            self._grants = self._grants.copy()
            self._usage_by_queue = self._usage_by_queue.copy()
            self._usage_by_user = self._usage_by_user.copy()
            self._running_by_array = self._running_by_array.copy()
            self._running_by_priority = self._running_by_priority.copy()
            self._elastic_or_stopping = self._elastic_or_stopping.copy()
            self._frozen = False

    def _enqueue(self, gang: PendingGang) -> None:
        key = class_key_of(gang)
        if key not in self._waiting:
            self._waiting[key] = _MutableClass()
        self._waiting[key].add(gang, self._policy)
        self._mark_changed(key)

    def _resort(self, policy: Policy) -> None:
        self._policy = policy
        self._waiting, self._frozen_classes = {}, {}
        for gang in self._pending.values():
            self._enqueue(gang)

    def _mark_changed(self, key: ClassKey) -> None:
        self.version += 1
        self._frozen_classes.pop(key, None)
        self._stale[key] = None

    def _refit(self, before: Amounts) -> None:
        """Adds the change of capacity to the free amounts, for a table with the same rows and columns.

        Grants of whole nodes are computed again: such a gang holds the new capacity.
        """
        more = self._table.capacity - before
        rows = np.flatnonzero(more.any(axis=1))
        self._free[rows] += more[rows]
        if self._whole_nodes is None:
            self._whole_nodes = {gang.id for gang in self._running.values() if _has_whole_nodes(gang)}
        for job_id in self._whole_nodes:
            if np.isin(rows, self._grants[job_id].rows).any():
                release_grant(self._table, self._free, self._grants[job_id])
                self._grant(self._running[job_id])

    def _regrant(self) -> None:
        """Computes all grants again, for a table with other rows or columns."""
        self._free = self._table.capacity.copy(order="F")
        for gang in self._running.values():
            self._grant(gang)

    @property
    def _contended_resources(self) -> list[str]:
        """Exclusive resources that several gangs request: only these need columns, to be released and reserved."""
        return [name for name, count in self._exclusive_request_counts.items() if count > 1]

    def _count_exclusive_requests(self, demands: tuple[Demand, ...], sign: int) -> None:
        known = self._exclusives.get(id(demands))
        if known is None:
            if len(self._exclusives) >= _MAX_CACHED_DEMANDS:
                self._exclusives.clear()
            known = self._exclusives[id(demands)] = demands, frozenset(exclusive_names(demands))
        names = known[1]
        if not names:
            return
        counts = dict(self._exclusive_request_counts)
        for name in names:
            counts[name] = counts.get(name, 0) + sign
            if not counts[name]:
                del counts[name]
        self._exclusive_request_counts = counts
        if any(counts.get(name, 0) > 1 and name not in self._table.column for name in names):
            self._thaw()
            table = self._table
            self._table = build_table(table.nodes, table.topology, table.epoch + 1, self._contended_resources)
            self._regrant()

    def _grant(self, gang: RunningGang, grant: Grant | None = None) -> None:
        if grant is None or grant.amounts.shape[1] != len(self._table.resource_names):
            grant = compute_grant(self._table, gang.demands, gang.placement)
        self._grants[gang.id] = grant
        allocate_grant(self._table, self._free, grant)

    def _count(self, gang: RunningGang, sign: int) -> None:
        """Adds (1) or subtracts (-1) the gang in the sums of its queue, its user, its array and its priority."""
        total = total_of(gang.demands)
        usage = _changed(self._usage_by_queue.pop(gang.queue, {}), total, sign)
        if usage:
            self._usage_by_queue[gang.queue] = usage
        owner = gang.queue, gang.user
        before = self._usage_by_user.pop(owner, UserUsage(0, {}))
        if before.jobs + sign:
            self._usage_by_user[owner] = UserUsage(before.jobs + sign, _changed(before.amounts, total, sign))
        if gang.array_id:
            self._running_by_array[gang.array_id] = self._running_by_array.get(gang.array_id, 0) + sign
            if not self._running_by_array[gang.array_id]:
                del self._running_by_array[gang.array_id]
        level = gang.queue, gang.priority
        self._running_by_priority[level] = self._running_by_priority.get(level, 0) + sign
        if not self._running_by_priority[level]:
            del self._running_by_priority[level]
        if self._whole_nodes is not None and _has_whole_nodes(gang):
            (self._whole_nodes.add if sign > 0 else self._whole_nodes.discard)(gang.id)
        self._elastic_or_stopping.pop(gang.id, None)
        if sign > 0 and (
            gang.stopping or gang.resize_to is not None or any(d.min_count or d.max_count for d in gang.demands)
        ):
            self._elastic_or_stopping[gang.id] = gang


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


def _changed(amounts: Mapping[str, int], by: Mapping[str, int], sign: int) -> dict[str, int]:
    """Returns a new sum, without zeros."""
    after = dict(amounts)
    for name, amount in by.items():
        after[name] = after.get(name, 0) + sign * amount
        if not after[name]:
            del after[name]
    return after


def _has_whole_nodes(gang: RunningGang) -> bool:
    return any(demand.whole_node for demand in gang.demands)
