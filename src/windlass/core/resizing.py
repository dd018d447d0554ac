"""Other sizes of an elastic gang that runs: which replicas it gives up, and what that frees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from windlass.core.booking import grant_of
from windlass.core.gang import Demand, Running
from windlass.core.snapshot import Grant, NodeTable
from windlass.core.status import Placement


@dataclass(frozen=True, slots=True, eq=False)
class Smaller:
    """A gang with fewer replicas, and what it gives back."""

    placement: Placement
    freed: Grant
    amounts: dict[str, int]
    """The same by resource."""


def elastic_role(run: Running) -> Demand | None:
    """The role of which the number may change; None: of none. Spread and sliced replicas stay as many as they are."""
    role = next((demand for demand in run.demands if demand.least or demand.most), None)
    if role is None or (role.topology is not None and (role.topology.spread or role.topology.slice)):
        return None
    return role


def surplus(run: Running) -> int:
    """How many replicas it could do without."""
    role = elastic_role(run)
    return 0 if role is None else max(role.count - (role.least or role.count), 0)


def giving_order(table: NodeTable, run: Running, nodes_first: Sequence[int]) -> list[int]:
    """The replicas of its elastic role in the order in which they are given up.

    `nodes_first`: rows, those first whose nodes are wanted most; of one node the replica with the highest number.
    """
    role = elastic_role(run)
    names = run.placement.nodes[role.role] if role else ()
    place = {row: number for number, row in enumerate(nodes_first)}
    last = len(place)
    return sorted(range(len(names)), key=lambda n: (place.get(table.row.get(names[n], -1), last), -n))


def smaller(table: NodeTable, run: Running, given_up: Iterable[int]) -> Smaller:
    """The gang without these replicas of its elastic role."""
    role = elastic_role(run)
    assert role is not None  # noqa: S101 - only elastic gangs are asked
    gone = set(given_up)
    kept, dropped = _split(run.placement, role.role, gone)
    freed = grant_of(table, [replace(role, count=len(gone))], dropped)
    amounts = {name: amount * len(gone) for name, amount in role.resources.items()}
    return Smaller(kept, freed, amounts)


def own_replicas(run: Running) -> Counter[str]:
    """By node: how many replicas of its elastic role are there."""
    role = elastic_role(run)
    return Counter(run.placement.nodes[role.role] if role else ())


def _split(placement: Placement, role: str, gone: set[int]) -> tuple[Placement, Placement]:
    """The placement without some replicas of a role, and these alone."""
    names, devices = placement.nodes[role], placement.devices.get(role)
    kept = {**placement.nodes, role: tuple(name for number, name in enumerate(names) if number not in gone)}
    dropped = {role: tuple(names[number] for number in sorted(gone))}
    if devices is None:
        return Placement(kept, placement.devices), Placement(dropped)
    left = {**placement.devices, role: tuple(each for number, each in enumerate(devices) if number not in gone)}
    return Placement(kept, left), Placement(dropped, {role: tuple(devices[number] for number in sorted(gone))})
