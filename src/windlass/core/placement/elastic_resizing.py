"""Sizes of an elastic gang: its size at the start, the replicas it releases when it shrinks, and what that frees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from windlass.core.model.gang import Demand, RunningGang, demands_as_placed, minimum_demands, total_of
from windlass.core.model.snapshot import Grant, NodeTable
from windlass.core.model.status import Placement
from windlass.core.nodes.allocation import compute_grant, subtract_grant
from windlass.core.placement.topology_shortage import format_request


@dataclass(frozen=True, slots=True, eq=False)
class SmallerGang:
    """A gang with fewer replicas, and the grant that it releases."""

    placement: Placement
    freed: Grant
    amounts: dict[str, int]
    """The same by resource."""


Demands: TypeAlias = tuple[Demand, ...]
_Answer = TypeVar("_Answer")


def place_largest(demands: Demands, attempt: Callable[[Demands], _Answer | None]) -> _Answer | None:
    """Returns the result of `attempt` at the largest size, from the minimum to the request, at which it succeeds.

    None: not even at the minimum. Binary search: a gang that fits in one size must fit in every smaller one. Slices
    stay whole.
    """
    whole = attempt(demands)
    role = next((d for d in demands if 0 < d.min_count < d.count), None)
    if whole is not None or role is None:
        return whole
    best = attempt(minimum_demands(demands))
    size = max(role.topology.slice, 1) if role.topology else 1
    low, high = role.min_count // size, (role.count - 1) // size
    while best is not None and low < high:
        middle = (low + high + 1) // 2
        found = attempt(tuple(replace(d, count=middle * size) if d is role else d for d in demands))
        low, high = (middle, high) if found is not None else (low, middle - 1)
        best = best if found is None else found
    return best


def elastic_role(run: RunningGang) -> Demand | None:
    """Returns the role whose number of replicas may change; None: no role."""
    elastic = next((demand for demand in run.demands if demand.min_count or demand.max_count), None)
    return None if elastic is None or run.partly_succeeded or fixed_size_reason([elastic]) else elastic


def role_in_place(run: RunningGang) -> Demand | None:
    """Returns the first role to which replicas may be added while the others go on; None: no role."""
    demands = (demand for demand in run.demands if demand.grows_in_place)
    return next((demand for demand in demands if not fixed_size_reason([demand])), None)


def missing_replicas(run: RunningGang) -> tuple[Demand, ...]:
    """Returns what a gang misses of the replicas that its owner requests, as demands of their own."""
    return tuple(
        replace(each, count=each.max_count - each.count, min_count=0, max_count=0, topology=None, grows_in_place=False)
        for each in run.demands
        if each.grows_in_place
    )


def fixed_size_reason(demands: Iterable[Demand]) -> str:
    """Returns the reason why the size of an elastic gang is fixed while it runs; "": it may change."""
    for demand in demands:
        near = demand.topology
        if (demand.min_count or demand.max_count) and near is not None and (near.spread or near.slice):
            return f"role {demand.role} is not resized while it runs: its replicas are {format_request(near)}"
    return ""


def surplus_replicas(run: RunningGang) -> int:
    """Returns the number of replicas above the minimum."""
    role = elastic_role(run)
    return 0 if role is None else max(role.count - (role.min_count or role.count), 0)


def release_order(table: NodeTable, run: RunningGang, nodes_first: Sequence[int]) -> list[int]:
    """Returns the replicas of the elastic role in the order in which they are released.

    `nodes_first`: rows, the most wanted nodes first; on one node the replica with the highest number comes first.
    """
    role = elastic_role(run)
    names = run.placement.nodes[role.role] if role else ()
    place = {row: number for number, row in enumerate(nodes_first)}
    last = len(place)
    return sorted(range(len(names)), key=lambda n: (place.get(table.row.get(names[n], -1), last), -n))


def shrink_gang(table: NodeTable, run: RunningGang, given_up: Iterable[int]) -> SmallerGang:
    """Returns the gang without these replicas of its elastic role."""
    role = elastic_role(run)
    assert role is not None  # noqa: S101 - only elastic gangs are asked
    gone = set(given_up)
    kept, dropped = _split(run.placement, role.role, gone)
    freed = compute_grant(table, [replace(role, count=len(gone))], dropped)
    amounts = {name: amount * len(gone) for name, amount in role.resources.items()}
    return SmallerGang(kept, freed, amounts)


def finish_resize(table: NodeTable, run: RunningGang, held: Grant) -> SmallerGang:
    """Returns the gang after the resize in progress, and what it releases then of all that it holds now."""
    assert run.resize_to is not None  # noqa: S101 - only those are asked
    kept = demands_as_placed(run.demands, run.resize_to)
    keeps = total_of(kept)
    amounts = {name: amount - keeps.get(name, 0) for name, amount in total_of(run.demands).items()}
    return SmallerGang(run.resize_to, subtract_grant(held, compute_grant(table, kept, run.resize_to)), amounts)


def own_replicas(run: RunningGang) -> Counter[str]:
    """Returns the number of replicas of the elastic role by node."""
    role = elastic_role(run)
    return Counter(run.placement.nodes[role.role] if role else ())


def _split(placement: Placement, role: str, gone: set[int]) -> tuple[Placement, Placement]:
    """Returns the placement without some replicas of a role, and the placement of these alone."""
    names, devices = placement.nodes[role], placement.devices.get(role)
    kept = {**placement.nodes, role: tuple(name for number, name in enumerate(names) if number not in gone)}
    dropped = {role: tuple(names[number] for number in sorted(gone))}
    if devices is None:
        return Placement(kept, placement.devices), Placement(dropped)
    left = {**placement.devices, role: tuple(each for number, each in enumerate(devices) if number not in gone)}
    return Placement(kept, left), Placement(dropped, {role: tuple(devices[number] for number in sorted(gone))})
