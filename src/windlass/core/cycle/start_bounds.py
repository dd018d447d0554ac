"""Expected starts of all pending gangs, in one pass over total amounts.

Amounts are summed over the nodes that a kind of gang may use, on a grid of times. In the order of turns, each gang
takes the first interval in which enough is free for its walltime. That is conservative backfill on totals: it knows
neither single nodes nor later arrivals. No decision depends on the estimate, so its amounts are floats.
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
from windlass.core.queues.quota import available, queue_named
from windlass.core.reservations.release_forecast import NEVER

Amounts: TypeAlias = NDArray[np.float64]

_FIRST, _GROWTH, _LAST = 60_000, 1.05, 400 * 86_400_000
"""The grid's first step and its end, in ms, and the factor from one step to the next."""
_STEPS = int(np.ceil(np.log(_LAST / _FIRST) / np.log(_GROWTH)))
EDGES = np.concatenate(([0], (_FIRST * _GROWTH ** np.arange(_STEPS)).astype(np.int64)))
"""int64[C]: times of the grid, in ms from now."""
_EDGES: list[int] = EDGES.tolist()
"""The same as Python numbers: several times as fast for single values."""
_UNREACHED = len(_EDGES)
"""Cell of a gang that starts at no time of the grid."""


class StartEstimate(NamedTuple):
    """Expected start of a gang, in ms, and its certainty."""

    at: int
    certainty: StartCertainty


def start_bounds(cycle: SchedulingCycle) -> dict[str, int]:
    """By id of each gang with a reservation: its latest start, in ms, if that is known."""
    # the time at which blocked gangs get quota is unknown, and then they go first
    first = min(map(cycle.turn, cycle.first_claims.values()), default=None)
    highest = _highest_by_queue(cycle)
    found: dict[str, int] = {}
    limits: set[str] = set()
    for reservation in cycle.profile.reservations():
        # of several gangs under one limit on running jobs, the first may keep the others out
        counted = _shared_limits_of(cycle, reservation.gang)
        goes_first = first is None or cycle.turn(reservation.gang) <= first
        keeps_turn = _keeps_its_turn(cycle, reservation.gang, highest)
        if reservation.start < NEVER and goes_first and keeps_turn and limits.isdisjoint(counted):
            found[reservation.gang.id] = reservation.start
        limits |= counted
    return found


def _highest_by_queue(cycle: SchedulingCycle) -> dict[str, int]:
    """By queue with pending gangs: their highest priority."""
    highest: dict[str, int] = {}
    for each in cycle.snapshot.classes:
        gang = each.gangs[0]
        highest[gang.queue] = max(gang.priority, highest.get(gang.queue, gang.priority))
    return highest


def _keeps_its_turn(cycle: SchedulingCycle, gang: PendingGang, highest: Mapping[str, int]) -> bool:
    """Whether no gang of another queue can come before it when usage of the queues has changed."""
    if cycle.fair_shares is None:
        return True
    others = (priority for queue, priority in highest.items() if queue != gang.queue)
    most = max(others, default=None)
    ranks_first = cycle.priority_first and not cycle.usage.tree.limited.get(gang.queue)
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
    """By id of the pending gangs, which come in their order; gangs without an estimate are left out.

    `bounds`: latest starts, in ms, by id of the gangs with reservations.
    """
    grid = _CapacityGrid(cycle)
    found = {}
    for gang in waiting:
        reserved = bounds.get(gang.id)
        cell = grid.give(gang, reserved)
        if reserved is not None:
            found[gang.id] = StartEstimate(reserved, StartCertainty.BOUND)
        elif cell is not None:
            found[gang.id] = StartEstimate(cycle.now + _EDGES[cell], StartCertainty.EXPECTED)
    return found


def _first(bad: Mask, walltime: int | None, not_before: int) -> int:
    """The first cell of an interval without bad cells that lasts so long; `_UNREACHED` if there is none.

    The search runs on bytes, and only the first cell of an interval matters, from which it lasts longest.
    """
    marks = bad.tobytes()
    cell = bisect_left(_EDGES, not_before)
    if walltime is None:
        return max(cell, marks.rfind(True) + 1)
    while (cell := marks.find(False, cell)) >= 0:
        over = marks.find(True, cell)
        if over < 0 or _EDGES[over] - _EDGES[cell] >= walltime:
            return cell
        cell = over
    return _UNREACHED


class _Releases:
    """Releases on the grid: gangs with a walltime that run or start with the plan."""

    def __init__(self, cycle: SchedulingCycle) -> None:
        snapshot, now = cycle.snapshot, cycle.now
        ending: list[tuple[int, RunningGang | PendingGang, Grant]] = [
            (at - now, snapshot.running[job_id], snapshot.grants[job_id]) for at, job_id in snapshot.ends
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
        """float64[C]: free amount of a resource on these nodes."""
        within = mask[self._rows]
        back = self._over_time(self._cell_of_row[within], self._amounts[within, column])
        return back + float(np.maximum(self._free[mask, column], 0).sum())

    def given_back(self, amount: Callable[[RunningGang | PendingGang], int]) -> Amounts:
        """float64[C]: released amount of something else that gangs hold."""
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
        """float64[P, C]"""
        self.most: list[float] = self.free[:, -1].tolist()
        """By pool: the free amount after all releases."""
        self._parts: dict[int, Amounts] = {}

    def take(self, pool: int, amount: float, start: int, end: int) -> None:
        """Takes an amount from one cell up to another: from each pool in proportion to the nodes that it shares."""
        parts = self._parts.get(pool)
        if parts is None:
            together = self._masks @ self._masks[pool]
            parts = self._parts[pool] = together[:, None].astype(np.float64) / max(1.0, float(together[pool]))
        self.free[:, start:end] -= parts * amount


class _PoolDemand(NamedTuple):
    """Amount that a gang takes from a pool."""

    column: int
    pool: int
    amount: float


class _LimitGrid(NamedTuple):
    """Remaining amount of a limit on the grid, and its maximum before any gang took."""

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
        """By column and mask: number of the pool."""
        self._masks: dict[int, list[Mask]] = {}
        """By column: masks of its pools."""
        self._needs = {id(each.gangs[0].demands): self._pool_demands(each.gangs[0]) for each in cycle.snapshot.classes}
        """By id of a gang's demands, which the snapshot keeps alive."""
        self._pools = {column: _NodePools(self._ends, column, masks) for column, masks in self._masks.items()}
        self._of_queues: dict[str, list[tuple[str, _LimitGrid]] | None] = {}
        self._of_arrays: dict[str, _LimitGrid] = {}

    def give(self, gang: PendingGang, reserved: int | None) -> int | None:
        """Takes what the gang needs from the first time at which it is free long enough. None: never, or unknown."""
        if gang.waits_for or (limits := self._limits_of(gang)) is None:
            return None
        needs = self._needs_of(gang)
        if reserved is None:
            cell = self._soonest(gang, needs, limits)
        else:
            cell = bisect_left(_EDGES, reserved - self._cycle.now)
        if cell >= _UNREACHED:
            return None
        end = _UNREACHED if gang.walltime is None else bisect_left(_EDGES, _EDGES[cell] + gang.walltime)
        for column, pool, amount in needs:
            self._pools[column].take(pool, amount, cell, end)
        for left, amount in limits:
            left.amounts[cell:end] -= amount
        return cell

    def _soonest(self, gang: PendingGang, needs: list[_PoolDemand], limits: list[tuple[_LimitGrid, int]]) -> int:
        bad: list[Mask] = []
        for column, pool, amount in needs:
            if amount > self._pools[column].most[pool]:
                return _UNREACHED
            bad.append(self._pools[column].free[pool] < amount)
        for left, charged in limits:
            if charged > left.most:
                return _UNREACHED
            bad.append(left.amounts < charged)
        any_bad = np.logical_or.reduce(bad) if len(bad) > 1 else bad[0] if bad else np.zeros(_UNREACHED, np.bool_)
        return _first(any_bad, gang.walltime, (gang.not_before or 0) - self._cycle.now)

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
        place = self._numbers.get(key)
        if place is None:
            same = self._masks.setdefault(column, [])
            place = self._numbers[key] = len(same)
            same.append(mask)
        return place

    # --- limits of queues and arrays ------------------------------------------------------------------

    def _limits_of(self, gang: PendingGang) -> list[tuple[_LimitGrid, int]] | None:
        """The limits and what the gang takes of each; None: its queue does not exist any more."""
        rules = self._rules_of(gang.queue)
        if rules is None:
            return None
        found = [(left, asked) for name, left in rules if (asked := charge(gang.request, name))]
        if gang.array_id and gang.array_limit:
            found.append((self._left_in_array(gang), 1))
        return found

    def _rules_of(self, queue: str) -> list[tuple[str, _LimitGrid]] | None:
        if queue not in self._of_queues:
            tree = self._cycle.usage.tree
            known = queue_named(self._cycle.snapshot.queues, queue) is not None and queue not in tree.faults
            rules = [(name, self._left_in_queue(queue, name)) for name in tree.limited.get(queue, ())]
            self._of_queues[queue] = rules if known else None
        return self._of_queues[queue]

    def _left_in_queue(self, queue: str, resource: str) -> _LimitGrid:
        """Assumes that only releases of the queue's own gangs return to it."""
        now = available(self._cycle.usage, queue, resource) or 0
        return self._left(now, lambda run: charge(total_of(run.demands), resource) if run.queue == queue else 0)

    def _left_in_array(self, gang: PendingGang) -> _LimitGrid:
        if gang.array_id not in self._of_arrays:
            now = gang.array_limit - self._cycle.arrays.get(gang.array_id, 0)
            self._of_arrays[gang.array_id] = self._left(now, lambda run: int(run.array_id == gang.array_id))
        return self._of_arrays[gang.array_id]

    def _left(self, now: int, back: Callable[[RunningGang | PendingGang], int]) -> _LimitGrid:
        amounts = now + self._ends.given_back(back)
        return _LimitGrid(amounts, float(amounts[-1]))


def _pool_of(table: NodeTable, demand: Demand) -> tuple[Mask, int, int]:
    """The nodes that a replica may use, the column of its scarcest resource, and the amount."""
    able = eligibility(table, demand)
    column, each = able.request[0] if able.request else (0, 0)
    if demand.whole_node and able.mask.any():
        column, each = 0, int(table.capacity[able.mask, 0].mean())
    return able.mask, column, each
