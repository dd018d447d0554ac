"""Which nodes a replica may go to, by masks, and how many nodes are lost to each cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from windlass.core.cluster import Taint
from windlass.core.gang import Demand
from windlass.core.job import Toleration
from windlass.core.reasons import Count
from windlass.core.resources import MAX_AMOUNT
from windlass.core.snapshot import NodeTable

Mask: TypeAlias = NDArray[np.bool_]
Request: TypeAlias = tuple[tuple[int, int], ...]
"""(column, amount) of every resource a replica asks for, in the axis' order, zeros left out."""

NOT_READY = "not ready"
CORDONED = "cordoned"
TOO_SMALL = "too small"
FULL = "full"
_PASSES = -1
_KEPT = 4096
"""How many answers a node table keeps before it forgets them all."""


@dataclass(frozen=True, slots=True, eq=False)
class Eligibility:
    """The nodes where one replica would fit if they were empty. N nodes."""

    mask: Mask
    """bool[N]; read-only."""
    request: Request
    lost: NDArray[np.int16]
    """int16[N]: which of `causes` excludes the node first, or -1."""
    causes: tuple[str, ...]

    @property
    def counts(self) -> tuple[Count, ...]:
        """Nodes lost, by first cause, in the order in which causes are tried."""
        lost = np.bincount(self.lost + 1, minlength=len(self.causes) + 1)[1:].tolist()
        return tuple(Count(cause, nodes) for cause, nodes in zip(self.causes, lost, strict=True) if nodes)


def eligibility(table: NodeTable, demand: Demand) -> Eligibility:
    """The nodes a replica of `demand` may use, kept in the table."""
    selector = tuple(sorted(demand.node_selector.items()))
    resources = tuple(sorted(demand.resources.items()))
    key = ("eligible", selector, demand.tolerations, resources)
    found = table.derived.get(key)
    if found is None:
        found = _remember(table, key, _eligibility(table, demand))
    return cast(Eligibility, found)


def restored(table: NodeTable) -> NodeTable:
    """The same nodes, all of them ready and none cordoned; kept in the table."""
    found = table.derived.get("restored")
    if found is None:
        nodes = tuple(replace(node, ready=True, cordoned="") for node in table.nodes)
        back = replace(table, nodes=nodes, usable=np.ones(len(nodes), dtype=np.bool_), derived={})
        found = _remember(table, "restored", back)
    return cast(NodeTable, found)


def _eligibility(table: NodeTable, demand: Demand) -> Eligibility:
    # each node is lost to the first cause in this order
    causes, lost = _lost_to_others(table, demand)
    request = request_of(table, demand.resources)
    small = _too_small(table, demand.resources, request)
    lost = np.where(small & (lost == _PASSES), np.int16(len(causes)), lost)
    mask = lost == _PASSES
    mask.flags.writeable = False
    return Eligibility(mask, request, lost, (*causes, TOO_SMALL))


Losses: TypeAlias = list[tuple[str, Mask]]


def _lost_to_others(table: NodeTable, demand: Demand) -> tuple[tuple[str, ...], NDArray[np.int16]]:
    """Causes other than size, and per node the first that excludes it."""
    key = ("lost", tuple(sorted(demand.node_selector.items())), demand.tolerations)
    found = table.derived.get(key)
    if found is None:
        losses = _losses_of_kind(table, demand.node_selector, demand.tolerations) + _losses_of_state(table)
        lost = np.full(len(table.nodes), _PASSES, dtype=np.int16)
        for number, (_, bad) in reversed(list(enumerate(losses))):
            lost[bad] = number
        found = _remember(table, key, (tuple(cause for cause, _ in losses), lost))
    return cast(tuple[tuple[str, ...], NDArray[np.int16]], found)


def _losses_of_kind(table: NodeTable, selector: Mapping[str, str], tolerations: tuple[Toleration, ...]) -> Losses:
    labels = [(f"label {key}={value}", _lacks_label(table, key, value)) for key, value in sorted(selector.items())]
    return [*labels, *_losses_to_taints(table, tolerations)]


def _losses_of_state(table: NodeTable) -> Losses:
    key = "state"
    found = table.derived.get(key)
    if found is None:
        down = np.array([not node.ready for node in table.nodes], dtype=np.bool_)
        found = _remember(table, key, [(NOT_READY, down), (CORDONED, ~table.usable & ~down)])
    return cast(Losses, found)


def _lacks_label(table: NodeTable, label: str, value: str) -> Mask:
    key = ("label", label, value)
    found = table.derived.get(key)
    if found is None:
        lacks = np.array([node.labels.get(label) != value for node in table.nodes], dtype=np.bool_)
        found = _remember(table, key, lacks)
    return cast(Mask, found)


def _losses_to_taints(table: NodeTable, tolerations: tuple[Toleration, ...]) -> Losses:
    """One loss per taint that keeps a replica away and is not tolerated."""
    key = ("taints", tolerations)
    found = table.derived.get(key)
    if found is None:
        rows: dict[Taint, list[int]] = {}
        for row, node in enumerate(table.nodes):
            for taint in node.taints:
                rows.setdefault(taint, []).append(row)
        bad = [taint for taint in rows if not tolerated(taint, tolerations)]
        found = _remember(table, key, [(_named(taint), _at(table, rows[taint])) for taint in sorted(bad, key=_named)])
    return cast(Losses, found)


def tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    """Whether a taint keeps nobody away, or not this one. Source: Kubernetes, Toleration.ToleratesTaint."""
    return taint.effect == "PreferNoSchedule" or any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def _named(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"taint {taint.key}{value}:{taint.effect}"


def _at(table: NodeTable, rows: list[int]) -> Mask:
    mask = np.zeros(len(table.nodes), dtype=np.bool_)
    mask[rows] = True
    return mask


def request_of(table: NodeTable, resources: Mapping[str, int]) -> Request:
    """What a replica asks for, by column. A resource that no node has is not in it."""
    column = table.column
    asked = [(column[name], amount) for name, amount in resources.items() if amount > 0 and name in column]
    return tuple(sorted((number, min(amount, MAX_AMOUNT)) for number, amount in asked))


def _too_small(table: NodeTable, resources: Mapping[str, int], request: Request) -> Mask:
    if any(amount > 0 and (name not in table.column or amount > MAX_AMOUNT) for name, amount in resources.items()):
        return np.ones(len(table.nodes), dtype=np.bool_)
    small = np.zeros(len(table.nodes), dtype=np.bool_)
    for number, amount in request:
        small |= table.capacity[:, number] < amount
    return small


def _remember(table: NodeTable, key: object, answer: object) -> object:
    if len(table.derived) >= _KEPT:
        table.derived.clear()
    table.derived[key] = answer
    return answer
