"""Cluster-wide settings from objects of our kinds: queues, the policy, reservations, topology levels.

Each object is read by the same table as cluster files. An unknown field, for example of a later version, is ignored,
and so is an object that cannot be read at all; the fault is reported per object, and all others stay valid.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from windlass.backends.kubernetes.cluster.topology_levels import Level
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.reservation import Reservation
from windlass.jobs.cluster.policy_fields import (
    POLICY,
    RESERVATION,
    check_policy,
    check_reservations,
    policy_of,
    reservations_of,
)
from windlass.jobs.cluster.queues import QUEUE, check_queues, queues_of
from windlass.jobs.errors import InputError
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestError, ManifestField
from windlass.jobs.syntax.field import Table
from windlass.jobs.syntax.table_reader import Reader
from windlass.jobs.syntax.text import Text
from windlass.jobs.syntax.yaml_tree import compose

THE_POLICY = "default"
"""Name of the only SchedulingPolicy in effect."""
_TOPOLOGY = "topology"
_MAX_FAULT_CHARS = 300


class ObjectKey(NamedTuple):
    """Key of a cluster-scoped object."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Settings. `levels` is empty without an explicit list: then labels define them. `faults`: errors by object."""

    queues: tuple[Queue, ...]
    policy: Policy = field(default_factory=Policy)
    reservations: tuple[Reservation, ...] = ()
    levels: tuple[Level, ...] = ()
    faults: Mapping[ObjectKey, str] = field(default_factory=dict)


def read_settings(
    queues: Iterable[Manifest], policies: Iterable[Manifest], reservations: Iterable[Manifest], nodes: Sequence[str]
) -> ClusterSettings:
    """Combines these objects; `nodes` are the names of the cluster's nodes.

    A queue in an invalid tree stays among the queues: the core starts none of its gangs, and reports the reason.
    """
    faults: dict[ObjectKey, str] = {}
    # 1. each object by itself
    read_queues = _read(queues, QUEUE, "Queue", faults)
    policy, levels = _policy(policies, faults)
    read_reservations = _read(reservations, RESERVATION, "Reservation", faults)
    # 2. all objects of a kind together
    for path, message in check_queues(read_queues, ()):
        faults.setdefault(ObjectKey("Queue", read_queues[_number(path)]["name"]), message)
    return ClusterSettings(
        queues=queues_of(read_queues),
        policy=policy,
        reservations=reservations_of(list(_compatible(read_reservations, nodes, faults))),
        levels=levels,
        faults=faults,
    )


def _read(objects: Iterable[Manifest], table: Table, kind: str, faults: dict[ObjectKey, str]) -> list[dict[str, Any]]:
    """Returns the readable objects, oldest first."""
    found = []
    for each in sorted(objects, key=_age):
        key = ObjectKey(kind, each["metadata"]["name"])
        try:
            values = _values({"name": key.name, **_spec(each)}, table, key, faults)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this object's
            values, faults[key] = None, _unforeseen(error)
        if values is not None:
            found.append(values)
    return found


def _policy(objects: Iterable[Manifest], faults: dict[ObjectKey, str]) -> tuple[Policy, tuple[Level, ...]]:
    """Returns the policy in effect, or the default."""
    for each in objects:
        key = ObjectKey("SchedulingPolicy", each["metadata"]["name"])
        if key.name != THE_POLICY:
            faults[key] = f"has no effect: the one that counts is called {THE_POLICY}"
            continue
        try:
            return _read_policy(_spec(each), key, faults)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this object's
            faults[key] = _unforeseen(error)
    return Policy(), ()


def _read_policy(
    spec: Mapping[str, Any], key: ObjectKey, faults: dict[ObjectKey, str]
) -> tuple[Policy, tuple[Level, ...]]:
    levels = _levels(spec, key, faults)
    values = _values({name: value for name, value in spec.items() if name != _TOPOLOGY}, POLICY, key, faults)
    if wrong := check_policy(values or {}):
        faults.setdefault(key, wrong)
    return policy_of(values or {}), levels


def _levels(spec: Mapping[str, Any], key: ObjectKey, faults: dict[ObjectKey, str]) -> tuple[Level, ...]:
    """Returns the levels of the policy; of two with one name the first."""
    try:
        written = [
            (each["level"].text(), each["labels"].text_list()) for each in ManifestField(spec)[_TOPOLOGY].items()
        ]
    except ManifestError as error:
        faults[key] = str(error.fault)
        return ()
    found = dict(reversed(written))
    return tuple(Level(name, found[name]) for name in dict.fromkeys(name for name, _ in written))


def _compatible(
    written: Sequence[dict[str, Any]], nodes: Sequence[str], faults: dict[ObjectKey, str]
) -> Iterator[dict[str, Any]]:
    """Yields reservations that are consistent with earlier ones. An unknown node is reported, and may still appear."""
    kept: list[dict[str, Any]] = []
    for each in written:
        known = [*nodes, *each.get("nodes", ())]
        here = len(kept)
        wrong = [text for path, text in check_reservations([*kept, each], known, ()) if path[0] == here]
        missing = sorted(set(each.get("nodes", ())) - set(nodes))
        if fault := next(iter(wrong), f"there is no node {', '.join(missing)}" if missing else ""):
            faults[ObjectKey("Reservation", each["name"])] = fault
        if not wrong:
            kept.append(each)
            yield each


def _values(
    spec: Mapping[str, Any], table: Table, key: ObjectKey, faults: dict[ObjectKey, str]
) -> dict[str, Any] | None:
    """Returns the fields and reports errors; None if the object cannot be read even without unknown fields."""
    known = {field.name for field in table}
    try:
        return _parsed(spec, table, key)
    except InputError as error:
        faults[key] = _said(error)
    try:
        return _parsed({name: value for name, value in spec.items() if name in known}, table, key)
    except InputError:
        return None


def _parsed(spec: Mapping[str, Any], table: Table, key: ObjectKey) -> dict[str, Any]:
    """Parses a spec. Raises InputError."""
    what = f"the {key.kind} {key.name}"
    text = Text(what, json.dumps(spec, ensure_ascii=False))
    reader = Reader(text)
    (document,) = compose(text)
    values = reader.table(document, table, (), what)
    if reader.problems:
        raise InputError(reader.problems)
    return values


def _unforeseen(error: Exception) -> str:
    """Returns the fault of an object whose reading has raised what no check foresees."""
    return f"cannot be read: {type(error).__name__}: {error}"[:_MAX_FAULT_CHARS]


def _said(error: InputError) -> str:
    return "; ".join(problem.message for problem in error.problems)


def _spec(manifest: Manifest) -> dict[str, Any]:
    spec = manifest.get("spec")
    return spec if isinstance(spec, dict) else {}


def _age(manifest: Manifest) -> tuple[str, str]:
    metadata = manifest["metadata"]
    return str(metadata.get("creationTimestamp", "")), metadata["name"]


def _number(path: Sequence[str | int]) -> int:
    return int(path[0])
