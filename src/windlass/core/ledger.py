"""The ledger: nodes, queues and gangs, updated incrementally; `Ledger.snapshot` is the input of `core.cycle`.

The only mutable part of the scheduler. A change costs time in proportion to the size of its gang; a snapshot shares
everything that has not changed since the last one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import replace

from windlass.core.model.gang import Demand, PendingGang, RunningGang
from windlass.core.model.node import Node, Topology
from windlass.core.model.policy import Policy
from windlass.core.model.queue import PastUsage, Queue
from windlass.core.model.reservation import Reservation
from windlass.core.model.snapshot import Amounts, Grant, NodeTable, Snapshot
from windlass.core.nodes.exclusive_requests import MAX_CONTENDED, ExclusiveRequests
from windlass.core.nodes.node_grants import NodeGrants
from windlass.core.nodes.node_table import build_table, update_table
from windlass.core.placement.scores.demand_popularity import DemandPopularity
from windlass.core.placement.scores.registry import SCORES
from windlass.core.queues.decayed_usage import advance_usage
from windlass.core.queues.running_sums import RunningSums
from windlass.core.queues.waiting_gangs import WaitingGangs


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
        self._nodes = NodeGrants(build_table(nodes, topology or Topology(), epoch=0))
        self._queues = {queue.name: queue for queue in queues}
        self._running: dict[str, RunningGang] = {}
        self._sums = RunningSums()
        self._past_usage: dict[str, PastUsage] = dict(past_usage or {})
        self._elastic_or_stopping: dict[str, RunningGang] = {}
        """By id: running gangs that are elastic, being stopped or being resized."""
        self._exclusive = ExclusiveRequests()
        self._walltime_ends: list[tuple[int, str]] = []
        self._waiting = WaitingGangs(self._policy)
        self._opened = 0
        """Time, in ms, until which begin times have been dropped."""
        self._last: Snapshot | None = None
        self._frozen = False
        """The last snapshot shares the collections (`_running`, those of `_nodes` …): copy them before writing."""
        self._lacks_columns = False
        """Several gangs request an exclusive resource that may have no column yet."""
        self._is_capped = False
        """There may be more such resources than columns."""

    @classmethod
    def at(cls, snapshot: Snapshot) -> Ledger:
        """Returns a ledger in the state of a snapshot, for dry runs; the snapshot does not change."""
        ledger = cls((), snapshot.queues.values(), None, snapshot.policy, snapshot.reservations, snapshot.past_usage)
        ledger.version = snapshot.version
        ledger._nodes, ledger._sums = NodeGrants.at(snapshot), RunningSums.at(snapshot)
        ledger._running = dict(snapshot.running)
        ledger._walltime_ends = list(snapshot.walltime_ends)
        ledger._elastic_or_stopping = dict(snapshot.elastic_or_stopping)
        ledger._exclusive = ExclusiveRequests(snapshot.exclusive_request_counts)
        ledger._waiting = WaitingGangs(snapshot.policy, snapshot.classes)
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
        before = self._nodes.table
        after = update_table(before, nodes, topology or Topology(), before.epoch + 1, self._exclusive.contended)
        wanted, rules = {queue.name: queue for queue in queues}, (policy or Policy(), tuple(reservations))
        same = (after.nodes, after.topology, wanted) == (before.nodes, before.topology, self._queues)
        if same and rules == (self._policy, self._reservations):
            return ()
        self._thaw()
        if rules[0] != self._policy:
            self._waiting.sort_by(rules[0])
        if wanted != self._queues:
            self._queues = wanted
        self._policy, self._reservations = rules
        if after.row is before.row:
            self._nodes.refit(after, self._running)
            pairs = zip(before.nodes, after.nodes, strict=True)
            return tuple(old.name for old, new in pairs if new.lost and not old.lost)
        self._nodes.regrant(after, self._running)
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
                    self._past_usage.get(queue.name), self._sums.by_queue.get(queue.name, {}), queue.half_life, now
                )
                for queue in fading
            }
            self._last = None

    def open_begin_times(self, now: int) -> None:
        """Drops begin times until `now` (ms), so that equal gangs are one class again. They keep their age."""
        self._opened = now
        if self._waiting.open_begin_times(now):
            self.version += 1

    @property
    def past_usage(self) -> Mapping[str, PastUsage]:
        """By queue that has a half-life: its past usage, to be stored for the next leader."""
        return self._past_usage

    # --- waiting gangs -----------------------------------------------------------------------------

    def add_pending(self, gang: PendingGang) -> None:
        """Adds a waiting gang, and releases what it held."""
        if gang.has_begun(self._opened):
            gang = replace(gang, begin=None)
        if self._waiting.get(gang.id) == gang:
            return
        self.release(gang.id)
        self.remove_pending(gang.id)
        if SCORES[self._policy.scoring].uses_typical_demands and not self._policy.typical_demands:
            self._popularity.count(gang.demands)
        self._waiting.add(gang)
        self.version += 1
        self._count_exclusive_requests(gang.demands, 1)

    def remove_pending(self, job_id: str) -> None:
        """Removes a waiting gang; does nothing if it does not wait."""
        gang = self._waiting.remove(job_id)
        if gang is not None:
            self.version += 1
            self._count_exclusive_requests(gang.demands, -1)

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
        if gang.stopping or gang.resize_to is not None or any(d.min_count or d.max_count for d in gang.demands):
            self._elastic_or_stopping[gang.id] = gang
        self._nodes.hold(gang, grant)
        self._sums.count(gang, 1)
        self._count_exclusive_requests(gang.demands, 1)

    def release(self, job_id: str) -> None:
        """Removes a running gang and frees its grant; does nothing if it does not run."""
        if job_id not in self._running:
            return
        self._thaw()
        gang = self._running.pop(job_id)
        if gang.ends_by is not None:
            del self._walltime_ends[bisect_left(self._walltime_ends, (gang.ends_by, job_id))]
        self._elastic_or_stopping.pop(job_id, None)
        self._nodes.release(job_id)
        self._sums.count(gang, -1)
        self._count_exclusive_requests(gang.demands, -1)

    @property
    def table(self) -> NodeTable:
        """The current node table: capacity and state of each node."""
        self._add_contended_columns()
        return self._nodes.table

    @property
    def free(self) -> Amounts:
        """int64[N, R]: free capacity now; read it, but do not keep it, because it changes in place."""
        self._add_contended_columns()
        return self._nodes.free

    # --- snapshots ---------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Returns the current state; the same object as before if nothing has changed."""
        if self._last is None or self._last.version != self.version:
            self._add_contended_columns()
            self._frozen = True
            nodes, sums = self._nodes, self._sums.charge_excess(self._queues)
            nodes.free.flags.writeable = False
            self._last = Snapshot(
                version=self.version,
                table=nodes.table,
                free=nodes.free,
                queues=self._queues,
                usage_by_queue=sums.by_queue,
                running_by_array=sums.by_array,
                classes=self._waiting.classes(),
                running=self._running,
                grants=nodes.grants,
                walltime_ends=tuple(self._walltime_ends),
                policy=self._policy_with_typical_demands(),
                reservations=self._reservations,
                usage_by_user=sums.by_user,
                past_usage=self._past_usage,
                running_by_priority=sums.by_priority,
                elastic_or_stopping=self._elastic_or_stopping,
                exclusive_request_counts=self._exclusive.share(),
            )
        return self._last

    # --- incremental updates -----------------------------------------------------------------------

    def _policy_with_typical_demands(self) -> Policy:
        """Returns the policy, with the typical demands that were counted if the policy names none."""
        if self._policy.typical_demands or not self._popularity.typical:
            return self._policy
        return replace(self._policy, typical_demands=self._popularity.typical)

    def _thaw(self) -> None:
        """Counts a change of usage, and copies what the last snapshot shares."""
        self.version += 1
        self._unshare()

    def _unshare(self) -> None:
        if self._frozen:
            self._nodes.unshare()
            self._sums.unshare()
            self._running = self._running.copy()
            self._elastic_or_stopping = self._elastic_or_stopping.copy()
            self._frozen = False

    def _count_exclusive_requests(self, demands: tuple[Demand, ...], sign: int) -> None:
        column = self._nodes.table.column
        self._lacks_columns |= any(name not in column for name in self._exclusive.count(demands, sign))
        self._lacks_columns |= self._is_capped and sign < 0  # a column may have become free for another resource

    def _add_contended_columns(self) -> None:
        """Adds the columns of all contended resources at once: each new table computes every grant again."""
        if not self._lacks_columns:
            return
        self._lacks_columns = False
        contended, table = self._exclusive.contended, self._nodes.table
        self._is_capped = len(contended) == MAX_CONTENDED
        if not table.column.keys() >= set(contended):
            self._unshare()
            self._nodes.regrant(build_table(table.nodes, table.topology, table.epoch + 1, contended), self._running)
