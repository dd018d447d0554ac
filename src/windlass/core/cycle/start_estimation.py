"""Estimates the starts of all pending gangs in one pass, and bounds the starts of gangs with reservations.

Free amounts are summed over the nodes that a kind of gang may use, on a grid of C times. In queue order, each
gang takes the first interval in which enough is free for its walltime. This is conservative backfill on totals: it
ignores single nodes and later arrivals. No decision depends on the estimate, so its amounts are floats.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from windlass.core.cycle.scheduling_cycle import SchedulingCycle
from windlass.core.model.gang import Demand, PendingGang, RunningGang, minimum_demands, total_of
from windlass.core.model.reasons import StartCertainty
from windlass.core.model.snapshot import Grant, NodeTable
from windlass.core.nodes.feasibility import eligibility
from windlass.core.nodes.node_filters import Mask
from windlass.core.queues.queue_tree import charge
from windlass.core.queues.quota import available_quota, queue_named
from windlass.core.reservations.release_forecast import NEVER

Amounts: TypeAlias = NDArray[np.float64]

_FIRST_MS, _FACTOR, _END_MS = 60_000, 1.05, 400 * 86_400_000
"""The grid's first time after 0 and the end of its last cell, in ms, and the factor from one time to the next."""
_STEPS = int(np.ceil(np.log(_END_MS / _FIRST_MS) / np.log(_FACTOR)))
EDGES = np.concatenate(([0], (_FIRST_MS * _FACTOR ** np.arange(_STEPS)).astype(np.int64)))
"""int64[C]: times of the grid, in ms from now. Cell i begins at `EDGES[i]`."""
_EDGE_LIST: list[int] = EDGES.tolist()
"""`EDGES` as Python numbers, with which code on single values is several times as fast."""
_UNREACHED = len(_EDGE_LIST)
"""Cell of a gang that starts at no time of the grid."""


class StartEstimate(NamedTuple):
    """Expected start of a gang, in ms since the epoch, and its certainty."""

    at: int
    certainty: StartCertainty


def start_bounds(cycle: SchedulingCycle) -> dict[str, int]:
    """Latest start, in ms since the epoch, by id of the gangs with reservations for which it is known."""
    # gangs blocked by quota go first once they get it, and that time is unknown
    first = min(map(cycle.sort_key, cycle.claims.first.values()), default=None)
    highest = _highest_by_queue(cycle)
    gated = [each.gangs[0] for each in cycle.snapshot.classes if cycle.is_gated(each.gangs[0])]
    found: dict[str, int] = {}
    limits: set[str] = set()
    for reservation in cycle.profile.reservations():
        # of several gangs under one limit on running jobs, the first may keep the others out
        counted = _shared_limits_of(cycle, reservation.gang)
        goes_first = first is None or cycle.sort_key(reservation.gang) <= first
        keeps_turn = _keeps_its_turn(cycle, reservation.gang, highest)
        # a gang whose gate may open before then, and that sorts ahead, takes the nodes first
        key = cycle.sort_key(reservation.gang)
        goes_first &= all(each.earliest_start >= reservation.start or cycle.sort_key(each) > key for each in gated)
        if reservation.start < NEVER and goes_first and keeps_turn and limits.isdisjoint(counted):
            found[reservation.gang.id] = reservation.start
        limits |= counted
    return found


def _highest_by_queue(cycle: SchedulingCycle) -> dict[str, int]:
    """Highest priority of pending gangs, by queue."""
    highest: dict[str, int] = {}
    for each in cycle.snapshot.classes:
        gang = each.gangs[0]
        highest[gang.queue] = max(gang.priority, highest.get(gang.queue, gang.priority))
    return highest


def _keeps_its_turn(cycle: SchedulingCycle, gang: PendingGang, highest: Mapping[str, int]) -> bool:
    """Whether no gang of another queue can come before this one after changes of the queues' usage."""
    if cycle.fair_shares is None:
        return True
    others = (priority for queue, priority in highest.items() if queue != gang.queue)
    most = max(others, default=None)
    ranks_first = cycle.priority_first and not cycle.usage.tree.limited_resources.get(gang.queue)
    return most is None or (ranks_first and gang.priority > most)


def _shared_limits_of(cycle: SchedulingCycle, gang: PendingGang) -> set[str]:
    """Queues with limits on users and jobs that count the gang, and its array if that is limited."""
    tree = cycle.usage.tree
    return {level for level in tree.path.get(gang.queue, ()) if level in tree.job_limited} | (
        {f"array {gang.array_id}"} if gang.array_limit else set()
    )


def estimate_starts(
    cycle: SchedulingCycle, waiting: Iterable[PendingGang], bounds: Mapping[str, int]
) -> dict[str, StartEstimate]:
    """Estimates by id of the pending gangs; gangs without an estimate are left out.

    `waiting`: in queue order. `bounds`: from `start_bounds`.
    """
    grid = _CapacityGrid(cycle)
    found = {}
    for gang in waiting:
        reserved = bounds.get(gang.id)
        cell = grid.assign(gang, reserved)
        if reserved is not None:
            found[gang.id] = StartEstimate(reserved, StartCertainty.BOUND)
        elif cell is not None:
            found[gang.id] = StartEstimate(_time_of(cell, gang, cycle.now), StartCertainty.EXPECTED)
    return found


def _time_of(cell: int, gang: PendingGang, now: int) -> int:
    """The time, in ms, at which a gang starts in a cell: when its backoff or begin time ends, if that comes before."""
    opens = gang.earliest_start
    return opens if opens > now and cell == bisect_left(_EDGE_LIST, opens - now) else now + _EDGE_LIST[cell]


def _first_long_cell(blocked: Mask, walltime: int | None, not_before: int) -> int:
    """The first cell from which no cell is blocked for the walltime; `_UNREACHED` if there is none.

    `not_before` and `walltime` in ms; walltime None: without end. Searches bytes, which is fast. Tests only the first
    cell of each free interval, because the interval lasts longest from there.
    """
    marks = blocked.tobytes()
    cell = bisect_left(_EDGE_LIST, not_before)
    if walltime is None:
        return max(cell, marks.rfind(True) + 1)
    while (cell := marks.find(False, cell)) >= 0:
        over = marks.find(True, cell)
        if over < 0 or _EDGE_LIST[over] - _EDGE_LIST[cell] >= walltime:
            return cell
        cell = over
    return _UNREACHED


class _Releases:
    """Releases on the grid, of gangs with a walltime that run or start with the plan."""

    def __init__(self, cycle: SchedulingCycle) -> None:
        snapshot, now = cycle.snapshot, cycle.now
        ending: list[tuple[int, RunningGang | PendingGang, Grant]] = [
            (at - now, snapshot.running[job_id], snapshot.grants[job_id]) for at, job_id in snapshot.walltime_ends
        ]
        ending += [(s.gang.walltime, s.gang, s.grant) for s in cycle.started if s.gang.walltime is not None]
        self._free = cycle.free
        self._gangs = [gang for _, gang, _ in ending]
        self._cells = np.searchsorted(EDGES, np.array([at for at, _, _ in ending], dtype=np.int64))
        sizes = [len(grant.rows) for _, _, grant in ending]
        self._rows = np.concatenate([np.empty(0, dtype=np.intp), *(grant.rows for _, _, grant in ending)])
        nothing = np.empty((0, self._free.shape[1]), dtype=np.int64)
        self._amounts = np.concatenate([nothing, *(grant.amounts for _, _, grant in ending)])
        self._cell_of_row = np.repeat(self._cells, sizes)

    def profile(self, mask: Mask, column: int) -> Amounts:
        """float64[C]: free amount of one resource on the nodes of a mask."""
        within = mask[self._rows]
        released = self._over_time(self._cell_of_row[within], self._amounts[within, column])
        return released + float(np.maximum(self._free[mask, column], 0).sum())

    def released(self, amount: Callable[[RunningGang | PendingGang], int]) -> Amounts:
        """float64[C]: sum of the released `amount` of each gang, such as its charge on a limit."""
        return self._over_time(self._cells, np.array([amount(gang) for gang in self._gangs], dtype=np.float64))

    def _over_time(self, cells: NDArray[np.intp], amounts: NDArray[np.generic]) -> Amounts:
        late = np.bincount(cells, weights=amounts, minlength=len(EDGES))[: len(EDGES)]
        total: Amounts = late.cumsum()
        return total


class _NodePools:
    """Free amounts of one resource on the grid, by pool: the nodes that one kind of replica may use."""

    def __init__(self, ends: _Releases, column: int, masks: list[Mask]) -> None:
        self._masks = np.array(masks, dtype=np.float32)
        self.free = np.array([ends.profile(mask, column) for mask in masks])
        """float64[P, C], for P pools."""
        self.most: list[float] = self.free[:, -1].tolist()
        """By pool: the free amount after all releases."""
        self._overlaps: dict[int, Amounts] = {}
        """By pool: float64[P, 1], the fraction of its nodes that each pool shares."""

    def take(self, pool: int, amount: float, start: int, end: int) -> None:
        """Takes an amount in cells `start` to `end - 1`: from each pool in proportion to the nodes that it shares."""
        overlaps = self._overlaps.get(pool)
        if overlaps is None:
            shared = self._masks @ self._masks[pool]
            overlaps = self._overlaps[pool] = shared[:, None].astype(np.float64) / max(1.0, float(shared[pool]))
        self.free[:, start:end] -= overlaps * amount


class _PoolDemand(NamedTuple):
    """Amount that a gang takes from a pool."""

    column: int
    pool: int
    amount: float


class _LimitGrid(NamedTuple):
    """Remaining amount of a limit on the grid, and its maximum before any pending gang takes from it."""

    amounts: Amounts
    """float64[C]"""
    most: float


class _CapacityGrid:
    """Free amounts of every pool, and remaining limits of queues and arrays, on the grid."""

    def __init__(self, cycle: SchedulingCycle) -> None:
        self._cycle = cycle
        self._table = cycle.snapshot.table
        self._ends = _Releases(cycle)
        self._numbers: dict[tuple[int, bytes], int] = {}
        """Number of the pool, by column and mask."""
        self._masks: dict[int, list[Mask]] = {}
        """Masks of the pools, by column."""
        self._needs = {id(each.gangs[0].demands): self._pool_demands(each.gangs[0]) for each in cycle.snapshot.classes}
        """By `id()` of a gang's demands, which the snapshot keeps alive."""
        self._pools = {column: _NodePools(self._ends, column, masks) for column, masks in self._masks.items()}
        self._of_queues: dict[str, list[tuple[str, _LimitGrid]] | None] = {}
        self._of_arrays: dict[str, _LimitGrid] = {}

    def assign(self, gang: PendingGang, reserved: int | None) -> int | None:
        """Takes the gang's demand from its reserved time (ms) on, or from the first cell at which it fits.

        Returns the cell; None: never, or unknown.
        """
        if gang.waits_for or gang.hold or (limits := self._limits_of(gang)) is None:
            return None
        needs = self._needs_of(gang)
        if reserved is None:
            cell = self._first_fit(gang, needs, limits)
        else:
            cell = bisect_left(_EDGE_LIST, reserved - self._cycle.now)
        if cell >= _UNREACHED:
            return None
        end = _UNREACHED if gang.walltime is None else bisect_left(_EDGE_LIST, _EDGE_LIST[cell] + gang.walltime)
        for column, pool, amount in needs:
            self._pools[column].take(pool, amount, cell, end)
        for left, amount in limits:
            left.amounts[cell:end] -= amount
        return cell

    def _first_fit(self, gang: PendingGang, needs: list[_PoolDemand], limits: list[tuple[_LimitGrid, int]]) -> int:
        masks: list[Mask] = []
        for column, pool, amount in needs:
            if amount > self._pools[column].most[pool]:
                return _UNREACHED
            masks.append(self._pools[column].free[pool] < amount)
        for left, charged in limits:
            if charged > left.most:
                return _UNREACHED
            masks.append(left.amounts < charged)
        if len(masks) > 1:
            blocked: Mask = np.logical_or.reduce(masks)
        else:
            blocked = masks[0] if masks else np.zeros(_UNREACHED, np.bool_)
        return _first_long_cell(blocked, gang.walltime, gang.earliest_start - self._cycle.now)

    def _needs_of(self, gang: PendingGang) -> list[_PoolDemand]:
        found = self._needs.get(id(gang.demands))
        if found is None:
            found = self._needs[id(gang.demands)] = self._pool_demands(gang)
        return found

    def _pool_demands(self, gang: PendingGang) -> list[_PoolDemand]:
        found = []
        for demand in minimum_demands(gang.demands):
            mask, column, each = _pool_of(self._table, demand)
            pool = self._number_of(mask, column)
            if each:
                found.append(_PoolDemand(column, pool, float(each * demand.count)))
        return found

    def _number_of(self, mask: Mask, column: int) -> int:
        key = column, mask.tobytes()
        number = self._numbers.get(key)
        if number is None:
            same = self._masks.setdefault(column, [])
            number = self._numbers[key] = len(same)
            same.append(mask)
        return number

    # --- limits of queues and arrays ------------------------------------------------------------------

    def _limits_of(self, gang: PendingGang) -> list[tuple[_LimitGrid, int]] | None:
        """The limits and the amount that the gang takes of each; None: its queue does not exist any more."""
        grids = self._queue_limits(gang.queue)
        if grids is None:
            return None
        found = [(left, asked) for name, left in grids if (asked := charge(gang.minimum_request, name))]
        if gang.array_id and gang.array_limit:
            found.append((self._array_limit(gang), 1))
        return found

    def _queue_limits(self, queue: str) -> list[tuple[str, _LimitGrid]] | None:
        if queue not in self._of_queues:
            tree = self._cycle.usage.tree
            known = queue_named(self._cycle.snapshot.queues, queue) is not None and queue not in tree.faults
            grids = [(name, self._queue_limit(queue, name)) for name in tree.limited_resources.get(queue, ())]
            self._of_queues[queue] = grids if known else None
        return self._of_queues[queue]

    def _queue_limit(self, queue: str, resource: str) -> _LimitGrid:
        """Remaining amount of a queue. Counts releases of its own gangs only, not of those in related queues."""
        now = available_quota(self._cycle.usage, queue, resource) or 0
        return self._limit_grid(now, lambda run: charge(total_of(run.demands), resource) if run.queue == queue else 0)

    def _array_limit(self, gang: PendingGang) -> _LimitGrid:
        if gang.array_id not in self._of_arrays:
            now = gang.array_limit - self._cycle.arrays.get(gang.array_id, 0)
            self._of_arrays[gang.array_id] = self._limit_grid(now, lambda run: int(run.array_id == gang.array_id))
        return self._of_arrays[gang.array_id]

    def _limit_grid(self, now: int, amount: Callable[[RunningGang | PendingGang], int]) -> _LimitGrid:
        amounts = now + self._ends.released(amount)
        return _LimitGrid(amounts, float(amounts[-1]))


def _pool_of(table: NodeTable, demand: Demand) -> tuple[Mask, int, int]:
    """The nodes that a replica may use, the column of its scarcest resource, and the amount."""
    able = eligibility(table, demand)
    column, each = able.request[0] if able.request else (0, 0)
    if demand.whole_node and able.mask.any():
        column, each = 0, int(table.capacity[able.mask, 0].mean())
    return able.mask, column, each
