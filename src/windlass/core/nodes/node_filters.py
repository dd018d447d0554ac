"""Filters: nodes that a demand's constraints exclude, and the cause, independent of a replica's size.

Masks by labels, taints and names are cached in `NodeTable.constraint_masks` and survive a change of capacity or state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.gang import Demand
from windlass.core.model.job import Match, Toleration
from windlass.core.model.node import Taint
from windlass.core.model.resources import GPU_TYPE
from windlass.core.model.snapshot import NodeTable
from windlass.core.nodes import affinity
from windlass.core.nodes.device_assignment import asks_for_gpus, gpu_part_of
from windlass.core.nodes.label_codes import LabelCodes, encode_label, matching_nodes

Mask: TypeAlias = NDArray[np.bool_]
Losses: TypeAlias = list[tuple[str, Mask]]
"""(cause, bool[N]) in the order in which causes are checked."""

AVOIDED = "avoided"
PROVEN_BAD = "proven bad by a diagnosis"
NOT_READY = "not ready"
CORDONED = "cordoned"
NOT_SHARED = "not shared"
HELD_EXCLUSIVELY = "holders of "
"""Prefix of the cause of nodes on which foreign pods hold an exclusive resource."""
PASSES = -1
_MAX_ANSWERS = 32_768
_MAX_CELLS = 2**25
"""Maximum number of answers that a node table caches before it drops all, and the maximum if each has a cell per node.
"""


def unite_masks(one: Mask | None, other: Mask | None) -> Mask | None:
    """Returns the nodes of either mask; None: no node."""
    if one is None or other is None:
        return other if one is None else one
    return one | other


class NodeRequirements(NamedTuple):
    """Requirements of a demand on nodes, except for their size."""

    selector: tuple[tuple[str, str], ...]
    """By label."""
    tolerations: tuple[Toleration, ...]
    affinity: tuple[tuple[Match, ...], ...] = ()
    gpu_types: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    faulty: tuple[str, ...] = ()
    part: str = ""
    """The resource that requests parts of GPUs."""
    exclusives: tuple[str, ...] = ()
    """Requested exclusive resources that foreign pods hold on some node."""


@dataclass(frozen=True, slots=True, eq=False)
class ConstraintLosses:
    """Nodes that labels, affinity, GPU type, taints and avoided names exclude."""

    lost: NDArray[np.int16]
    """int16[N], read-only: index into `causes` of the first cause that excludes the node, or PASSES."""
    causes: tuple[str, ...]


def requirements_of(table: NodeTable, demand: Demand) -> NodeRequirements:
    """Returns the requirements of a demand, except for size. GPU types apply to roles that request GPUs."""
    selector = tuple(sorted(demand.node_selector.items())) if demand.node_selector else ()
    types = demand.gpu_types if demand.gpu_types and asks_for_gpus(demand.resources) else ()
    return NodeRequirements(
        selector=selector,
        tolerations=demand.tolerations,
        affinity=demand.affinity,
        gpu_types=types,
        avoid=demand.avoid,
        faulty=demand.faulty,
        part=gpu_part_of(demand.resources),
        exclusives=_held_exclusives(table, demand.resources),
    )


def constraint_losses(table: NodeTable, requirements: NodeRequirements) -> ConstraintLosses:
    """Returns the first cause that excludes each node: label, affinity, gpu-type, taint, avoided, proven bad."""
    key = ("constraints", requirements[:6])
    found: ConstraintLosses | None = table.constraint_masks.get(key)
    if found is None:
        losses = [
            *_losses_to_labels(table, requirements),
            *_losses_to_taints(table, requirements.tolerations),
            *_losses_to_names(table, AVOIDED, requirements.avoid),
            *_losses_to_names(table, PROVEN_BAD, requirements.faulty),
        ]
        lost = np.full(len(table.nodes), PASSES, dtype=np.int16)
        for number, (_, bad) in reversed(list(enumerate(losses))):
            lost[bad] = number
        lost.flags.writeable = False
        found = _cache_mask(table, key, ConstraintLosses(lost, tuple(cause for cause, _ in losses)))
    return found


def losses_by_exclusives(table: NodeTable, exclusives: tuple[str, ...]) -> Losses:
    """Returns one loss per exclusive resource that foreign pods hold on some node."""
    return [(f"{HELD_EXCLUSIVELY}{name}", _at(table, _exclusive_holders(table)[name])) for name in exclusives]


def _held_exclusives(table: NodeTable, resources: Mapping[str, int]) -> tuple[str, ...]:
    """Returns the requested exclusive resources that foreign pods hold on some node, by name."""
    holders = _exclusive_holders(table)
    return tuple(sorted(name for name in resources if name in holders)) if holders else ()


def _exclusive_holders(table: NodeTable) -> Mapping[str, list[int]]:
    """Returns, by exclusive resource, the rows of the nodes on which foreign pods hold it."""
    found: dict[str, list[int]] | None = table.derived.get("exclusive holders")
    if found is None:
        found = {}
        for row, node in enumerate(table.nodes):
            for name in node.exclusive_in_use:
                found.setdefault(name, []).append(row)
        table.derived["exclusive holders"] = found
    return found


def _losses_to_labels(table: NodeTable, kind: NodeRequirements) -> Iterator[tuple[str, Mask]]:
    for name, value in kind.selector:
        yield f"label {name}={value}", _lacks_label(table, name, value)
    if kind.affinity:
        fits = matching_nodes(len(table.nodes), kind.affinity, partial(_codes_of_label, table))
        yield f"affinity {affinity.format_terms(kind.affinity)}", ~fits
    if kind.gpu_types:
        lacks = [_lacks_label(table, GPU_TYPE, gpu_type) for gpu_type in kind.gpu_types]
        yield f"{GPU_TYPE} {' or '.join(kind.gpu_types)}", np.logical_and.reduce(lacks)


def _losses_to_names(table: NodeTable, cause: str, names: tuple[str, ...]) -> Losses:
    rows = [table.row[name] for name in names if name in table.row]
    return [(cause, _at(table, rows))] if rows else []


def losses_by_sharing(table: NodeTable, part: str) -> Losses:
    """Returns the nodes that offer no parts of GPUs, if the demand requests some."""
    if not part:
        return []
    column = table.column.get(part)
    return [(NOT_SHARED, np.ones(len(table.nodes), np.bool_) if column is None else table.capacity[:, column] == 0)]


def losses_by_state(table: NodeTable) -> Losses:
    """Returns the nodes that are not ready, and those that are cordoned."""
    down = np.array([not node.ready for node in table.nodes], dtype=np.bool_)
    return [(NOT_READY, down), (CORDONED, ~table.usable & ~down)]


def _lacks_label(table: NodeTable, label: str, value: str) -> Mask:
    key = ("label", label, value)
    found: Mask | None = table.constraint_masks.get(key)
    if found is None:
        lacks = np.array([node.labels.get(label) != value for node in table.nodes], dtype=np.bool_)
        found = _cache_mask(table, key, lacks)
    return found


def _codes_of_label(table: NodeTable, label: str) -> LabelCodes:
    """Returns the codes of a label; labels that no node has share theirs, because jobs may name any number of them."""
    there: frozenset[str] | None = table.constraint_masks.get("labels")
    if there is None:
        there = _cache_mask(table, "labels", frozenset().union(*(node.labels for node in table.nodes)))
    key = ("label codes", label if label in there else None)
    found: LabelCodes | None = table.constraint_masks.get(key)
    return _cache_mask(table, key, encode_label(table.nodes, label)) if found is None else found


def _losses_to_taints(table: NodeTable, tolerations: tuple[Toleration, ...]) -> Losses:
    """Returns one loss per taint that excludes replicas and is not tolerated."""
    key = ("taints", tolerations)
    found: Losses | None = table.constraint_masks.get(key)
    if found is None:
        rows: dict[Taint, list[int]] = {}
        for row, node in enumerate(table.nodes):
            for taint in node.taints:
                rows.setdefault(taint, []).append(row)
        bad = sorted((taint for taint in rows if not is_tolerated(taint, tolerations)), key=_named)
        found = _cache_mask(table, key, [(_named(taint), _at(table, rows[taint])) for taint in bad])
    return found


def is_tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    """Tells whether a taint admits replicas with these tolerations. Source: Kubernetes, Toleration.ToleratesTaint."""
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


_Answer = TypeVar("_Answer")


def cache_answer(table: NodeTable, key: object, answer: _Answer) -> _Answer:
    """Caches an answer that follows from the table's fields alone, and returns it."""
    if len(table.derived) >= min(_MAX_ANSWERS, _MAX_CELLS // (1 + len(table.nodes))):
        table.derived.clear()
    table.derived[key] = answer
    return answer


def _cache_mask(table: NodeTable, key: object, answer: _Answer) -> _Answer:
    """Caches an answer that depends on labels, taints and names alone, and returns it."""
    if len(table.constraint_masks) >= _MAX_CELLS // (1 + len(table.nodes)):
        table.constraint_masks.clear()
    table.constraint_masks[key] = answer
    return answer
