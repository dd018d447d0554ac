"""When each of the gangs that wait can be expected to start: all of them in one pass, by counting.

On a grid of moments, amounts are added up over the nodes that a kind of gang may use. Gang by gang, in the order of
their turns, each gets the first stretch in which enough is free for as long as it lasts, and takes it. That is
conservative backfill on totals: it knows nothing of single nodes, and nothing of what comes in later. An estimate, so
amounts are floats here; nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from windlass.core.cohort import charge
from windlass.core.feasibility import Mask, eligibility
from windlass.core.forecast import NEVER
from windlass.core.gang import Demand, Pending, Running, at_least, total_of
from windlass.core.quota import available, queue_named
from windlass.core.reasons import Certainty
from windlass.core.snapshot import Grant
from windlass.core.trial import Trial

Amounts: TypeAlias = NDArray[np.float64]

_FIRST, _GROWTH, _LAST = 60_000, 1.05, 400 * 86_400_000
"""Of the grid: its first step and how far it reaches, in ms; each step is by so much longer than the one before."""
_STEPS = int(np.ceil(np.log(_LAST / _FIRST) / np.log(_GROWTH)))
EDGES = np.concatenate(([0], (_FIRST * _GROWTH ** np.arange(_STEPS)).astype(np.int64)))
"""int64[C]: the moments, in ms from now."""
_CELLS = np.arange(len(EDGES))
_UNTIL = np.append(EDGES, NEVER)


class Expectation(NamedTuple):
    """When a gang starts, in ms, and how sure that is."""

    at: int
    sure: Certainty


def bounds(trial: Trial) -> dict[str, int]:
    """By id of the gangs that nodes are promised to: when they start at the latest, in ms, if that is known."""
    # nobody knows when those that wait for quota get it, and then they go first
    first = min(map(trial.turn, trial.first_in.values()), default=None)
    highest = _highest_by_queue(trial)
    found: dict[str, int] = {}
    crowds: set[str] = set()
    for promise in trial.timetable.promises():
        # of several that count towards one limit on running jobs, the first may keep the others out
        counted = _crowds_of(trial, promise.gang)
        goes_first = first is None or trial.turn(promise.gang) <= first
        settled = _keeps_its_turn(trial, promise.gang, highest)
        if promise.start < NEVER and goes_first and settled and crowds.isdisjoint(counted):
            found[promise.gang.id] = promise.start
        crowds |= counted
    return found


def _highest_by_queue(trial: Trial) -> dict[str, int]:
    """By queue in which somebody waits: the highest priority of those."""
    highest: dict[str, int] = {}
    for line in trial.snapshot.lines:
        gang = line.gangs[0]
        highest[gang.queue] = max(gang.priority, highest.get(gang.queue, gang.priority))
    return highest


def _keeps_its_turn(trial: Trial, gang: Pending, highest: Mapping[str, int]) -> bool:
    """Whether nobody who waits in another queue can come before it when what the queues hold has changed."""
    if trial.shares_that_count is None:
        return True
    others = (priority for queue, priority in highest.items() if queue != gang.queue)
    most = max(others, default=None)
    ranks_first = trial.classes and not trial.accounts.tree.limited.get(gang.queue)
    return most is None or (ranks_first and gang.priority > most)


def _crowds_of(trial: Trial, gang: Pending) -> set[str]:
    """The queues with limits on users and jobs in which it counts, and its array if that has a limit."""
    tree = trial.accounts.tree
    return {level for level in tree.path.get(gang.queue, ()) if level in tree.crowded} | (
        {f"array {gang.array_id}"} if gang.array_limit else set()
    )


def expectations(trial: Trial, waiting: Iterable[Pending], bounds: Mapping[str, int]) -> dict[str, Expectation]:
    """By id of the gangs that wait, which come in their order; those of whom nothing can be told are left out.

    `bounds`: by id, when those start at the latest that have been promised nodes.
    """
    stocks = _Stocks(trial)
    found = {}
    for gang in waiting:
        promised = bounds.get(gang.id)
        cell = stocks.give(gang, promised)
        if promised is not None:
            found[gang.id] = Expectation(promised, Certainty.BOUND)
        elif cell is not None:
            found[gang.id] = Expectation(trial.now + int(EDGES[cell]), Certainty.EXPECTED)
    return found


def _first(bad: Mask, walltime: int | None, not_before: int) -> int:
    """The first cell of a stretch that is nowhere bad and lasts so long; after the last cell if there is none."""
    next_bad = np.minimum.accumulate(np.where(bad, _CELLS, len(_CELLS))[::-1])[::-1]
    lasts = next_bad == len(_CELLS) if walltime is None else _UNTIL[next_bad] >= EDGES + walltime
    if not_before > 0:
        lasts &= not_before <= EDGES
    first = int(lasts.argmax())
    return first if lasts[first] else len(_CELLS)


class _Ends:
    """Which gangs end at which moment of the grid, of those that run or start with the plan and have a walltime."""

    def __init__(self, trial: Trial) -> None:
        snapshot, now = trial.snapshot, trial.now
        ending: list[tuple[int, Running | Pending, Grant]] = [
            (at - now, snapshot.running[job_id], snapshot.grants[job_id]) for at, job_id in snapshot.ends
        ]
        ending += [(s.gang.walltime, s.gang, s.grant) for s in trial.started if s.gang.walltime is not None]
        self._free = trial.free
        self._gangs = [gang for _, gang, _ in ending]
        self._cells = np.searchsorted(EDGES, np.array([at for at, _, _ in ending], dtype=np.int64))
        sizes = [len(grant.rows) for _, _, grant in ending]
        self._rows = np.concatenate([np.empty(0, dtype=np.intp), *(grant.rows for _, _, grant in ending)])
        nothing = np.empty((0, self._free.shape[1]), dtype=np.int64)
        self._amounts = np.concatenate([nothing, *(grant.amounts for _, _, grant in ending)])
        self._cell_of_row = np.repeat(self._cells, sizes)

    def profile(self, mask: Mask, column: int) -> Amounts:
        """float64[C]: what is free of a resource on these nodes."""
        within = mask[self._rows]
        back = self._over_time(self._cell_of_row[within], self._amounts[within, column])
        return back + float(np.maximum(self._free[mask, column], 0).sum())

    def given_back(self, amount: Callable[[Running | Pending], int]) -> Amounts:
        """float64[C]: what has been given back of something else that gangs hold."""
        return self._over_time(self._cells, np.array([amount(gang) for gang in self._gangs], dtype=np.float64))

    def _over_time(self, cells: NDArray[np.intp], amounts: NDArray[np.generic]) -> Amounts:
        late = np.bincount(cells, weights=amounts, minlength=len(EDGES))[: len(EDGES)]
        total: Amounts = late.cumsum()
        return total


class _Pool(NamedTuple):
    """The nodes that one kind of replica may use, and one of the resources it asks for."""

    mask: Mask
    column: int


class _Stocks:
    """What is free of every pool, and of what queues and arrays may use, at each moment of the grid."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._table = trial.snapshot.table
        self._ends = _Ends(trial)
        self._pools: dict[tuple[int, int], int] = {}
        self._kinds: list[_Pool] = []
        self._free: list[Amounts] = []
        self._most: list[float] = []
        """Of every pool, once everybody has ended."""
        self._shared: dict[int, list[tuple[int, float]]] = {}
        """By pool: the pools of the same resource that have nodes in common, and which part of its own they are."""
        self._limits: dict[tuple[str, str], Amounts] = {}
        self._needs: dict[object, list[tuple[int, float]]] = {}
        for line in trial.snapshot.lines:
            for demand in line.gangs[0].demands:
                self._pool_of(demand)

    def give(self, gang: Pending, promised: int | None) -> int | None:
        """Take what the gang needs from the first moment on at which it lasts long enough. None: never, or not told."""
        if gang.waits_for or not self._has_queue(gang.queue):
            return None
        needs, limits = self._needs_of(gang), self._limits_of(gang)
        if promised is not None:
            cell = int(np.searchsorted(EDGES, promised - self._trial.now))
        else:
            if any(n > self._most[pool] for pool, n in needs):
                return None
            bad = np.zeros(len(EDGES), dtype=np.bool_)
            for left, amount in [*((self._free[pool], n) for pool, n in needs), *limits]:
                bad |= left < amount
            cell = _first(bad, gang.walltime, (gang.not_before or 0) - self._trial.now)
        if cell >= len(EDGES):
            return None
        end = len(EDGES) if gang.walltime is None else int(np.searchsorted(EDGES, EDGES[cell] + gang.walltime))
        for pool, amount in needs:
            for other, part in self._shared_by(pool):
                self._free[other][cell:end] -= amount * part
        for left, amount in limits:
            left[cell:end] -= amount
        return cell

    def _needs_of(self, gang: Pending) -> list[tuple[int, float]]:
        found = self._needs.get(gang.shape)
        if found is None:
            found = [
                (pool, each * d.count) for d in at_least(gang.demands) for pool, each in [self._pool_of(d)] if each
            ]
            self._needs[gang.shape] = found
        return found

    def _pool_of(self, demand: Demand) -> tuple[int, float]:
        """The pool of the scarcest kind of resource that a replica asks for, and how much of it."""
        able = eligibility(self._table, demand)
        column, each = able.request[0] if able.request else (0, 0)
        if demand.whole_node and able.mask.any():
            column, each = 0, int(self._table.capacity[able.mask, 0].mean())
        key = (id(able.screen), column)
        if key not in self._pools:
            self._pools[key] = len(self._kinds)
            self._kinds.append(_Pool(able.mask, column))
            self._free.append(self._ends.profile(able.mask, column))
            self._most.append(float(self._free[-1][-1]))
            self._shared.clear()
        return self._pools[key], float(each)

    def _shared_by(self, pool: int) -> list[tuple[int, float]]:
        if pool not in self._shared:
            mask, column = self._kinds[pool]
            nodes = max(1, int(mask.sum()))
            parts = ((n, int((mask & o.mask).sum()) / nodes) for n, o in enumerate(self._kinds) if o.column == column)
            self._shared[pool] = [(n, part) for n, part in parts if part]
        return self._shared[pool]

    def _has_queue(self, queue: str) -> bool:
        return (
            queue_named(self._trial.snapshot.queues, queue) is not None
            and queue not in self._trial.accounts.tree.faults
        )

    # --- limits that are no nodes ---------------------------------------------------------------------

    def _limits_of(self, gang: Pending) -> list[tuple[Amounts, float]]:
        found: list[tuple[Amounts, float]] = []
        limited = self._trial.accounts.tree.limited.get(gang.queue)
        if limited:
            request = total_of(at_least(gang.demands))
            asked = [(name, charge(request, name)) for name in limited]
            found += [(self._left_in_queue(gang.queue, name), amount) for name, amount in asked if amount]
        if gang.array_id and gang.array_limit:
            found.append((self._left_in_array(gang), 1))
        return found

    def _left_in_queue(self, queue: str, resource: str) -> Amounts:
        """As if only what its own gangs give back came back to it."""
        if (queue, resource) not in self._limits:
            now = available(self._trial.accounts, queue, resource) or 0
            back = self._ends.given_back(
                lambda run: charge(total_of(run.demands), resource) if run.queue == queue else 0
            )
            self._limits[queue, resource] = now + back
        return self._limits[queue, resource]

    def _left_in_array(self, gang: Pending) -> Amounts:
        key = ("", gang.array_id)
        if key not in self._limits:
            now = gang.array_limit - self._trial.arrays.get(gang.array_id, 0)
            self._limits[key] = now + self._ends.given_back(lambda run: int(run.array_id == gang.array_id))
        return self._limits[key]
