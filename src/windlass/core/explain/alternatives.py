"""Alternative requests that would start now, each verified by scheduling it in the gang's place."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace

from windlass.core.cycle.scheduler import schedule
from windlass.core.ledger import Ledger
from windlass.core.model.gang import Demand, PendingGang, shape_of
from windlass.core.model.resources import GPU_KIND, format_quantity, is_device
from windlass.core.model.snapshot import Snapshot
from windlass.core.placement.topology_shortage import format_request

_MAX_SPLITS = 4
"""Maximum number of times that a replica is halved; 8 devices take three."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """A changed request with which the gang would start now, all else equal."""

    change: str
    """For example "1 replica instead of 2", "as 4×4 gpu", "without nodeSelector zone=a"."""
    demands: tuple[Demand, ...]


def find_alternatives(snapshot: Snapshot, gang: PendingGang, now: int) -> tuple[Alternative, ...]:
    """Returns smaller requests, and requests with fewer constraints, that would start now; the least change of each."""
    trial = _Trials(Ledger.at(snapshot), gang, now)
    found = [*_fewer_replicas(trial), *_split_replicas(trial), *_fewer_labels(trial), *_wider_domains(trial)]
    return tuple(Alternative(change, demands) for change, demands in found)


def with_demands(gang: PendingGang, demands: tuple[Demand, ...]) -> PendingGang:
    """Returns the same gang with other demands."""
    return replace(gang, demands=demands, shape=shape_of(gang.queue, demands))


@dataclass(frozen=True, slots=True)
class _Trials:
    ledger: Ledger
    gang: PendingGang
    now: int

    def starts(self, demands: tuple[Demand, ...]) -> bool:
        """Tells whether the gang would start with these demands, which replace those of the trial before."""
        self.ledger.add_pending(with_demands(self.gang, demands))
        return any(each.job_id == self.gang.id for each in schedule(self.ledger.snapshot(), self.now).admissions)

    def changed(self, demand: Demand) -> tuple[Demand, ...]:
        return tuple(demand if demand.role == old.role else old for old in self.gang.demands)


_Found = Iterator[tuple[str, tuple[Demand, ...]]]


def _fewer_replicas(trial: _Trials) -> _Found:
    """Yields, for each role, the largest number of replicas that would start with the other roles unchanged."""
    for demand in trial.gang.demands:

        def fails(count: int, demand: Demand = demand) -> bool:
            return not trial.starts(trial.changed(_resize(demand, count)))

        step = max(demand.topology.slice, 1) if demand.topology else 1
        most = step * bisect_left(range(step, demand.count, step), x=True, key=fails)
        if most:
            of_role = f" of {demand.role}" if len(trial.gang.demands) > 1 else ""
            text = f"{most} replica{'' if most == 1 else 's'}{of_role} instead of {demand.count}"
            yield text, trial.changed(_resize(demand, most))


def _resize(demand: Demand, count: int) -> Demand:
    """Returns the demand with this number of replicas; an elastic role's minimum is at most that number."""
    return replace(demand, count=count, min_count=min(demand.min_count, count))


def _split_replicas(trial: _Trials) -> _Found:
    """Yields the same total amount in more and smaller replicas."""
    if len(trial.gang.demands) > 1:
        return
    demand = trial.gang.demands[0]
    for _ in range(_MAX_SPLITS):
        devices = {name: amount for name, amount in demand.resources.items() if is_device(name) and amount}
        if not devices or any(amount % 2 for amount in devices.values()):
            return
        halves = {name: -(-amount // 2) for name, amount in demand.resources.items()}
        demand = replace(demand, count=demand.count * 2, resources=halves)
        if trial.starts((demand,)):
            amounts = ", ".join(f"{format_quantity(name, halves[name])} {name}" for name in sorted(devices))
            yield f"as {demand.count}×{amounts}", (demand,)
            return


def _fewer_labels(trial: _Trials) -> _Found:
    """Yields the request without one label of a selector, or without all of them if only that helps."""
    for demand in trial.gang.demands:
        chosen = {key: value for key, value in demand.node_selector.items() if key != GPU_KIND}
        without = [[key] for key in chosen]
        if len(chosen) > 1:
            without.append(sorted(chosen))
        for keys in without:
            left = {key: value for key, value in demand.node_selector.items() if key not in keys}
            dropped = ", ".join(f"{key}={chosen[key]}" for key in keys)
            demands = trial.changed(replace(demand, node_selector=left))
            if trial.starts(demands):
                yield f"without nodeSelector {dropped}", demands
                break


def _wider_domains(trial: _Trials) -> _Found:
    """Yields the request with domains of the narrowest wider level that suffices; or with the level only preferred."""
    near, levels = trial.gang.demands[0].topology, trial.ledger.snapshot().table.topology.levels
    if near is None:
        return
    wider = levels[: levels.index(near.level)] if near.level in levels else ()
    changed = [replace(near, level=level) for level in reversed(wider)]
    variants = [(f"{format_request(other)} instead of {format_request(near)}", other) for other in changed]
    if near.required:
        variants.append((f"{format_request(near)} only if possible", replace(near, required=False)))
    for change, other in [*variants, ("without topology", None)]:
        demands = tuple(replace(demand, topology=other) for demand in trial.gang.demands)
        if trial.starts(demands):
            yield change, demands
            return
