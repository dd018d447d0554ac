"""Reads cluster files: the nodes, queues and policy that the local backend or a simulation declares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from windlass.core.model.node import Node, Taint, Topology
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.reservation import Reservation
from windlass.core.model.resources import CPU, GPU, GPU_TYPE, MEMORY
from windlass.jobs.cluster.policy_fields import (
    POLICY,
    RESERVATION,
    check_policy,
    check_reservations,
    policy_of,
    reservations_of,
)
from windlass.jobs.cluster.queues import QUEUE, check_queues, queues_of
from windlass.jobs.errors import FieldPath, InputError, input_error
from windlass.jobs.syntax import value_types
from windlass.jobs.syntax.field import Field, Shape, Table
from windlass.jobs.syntax.names import LABEL_VALUE, NODE_NAME
from windlass.jobs.syntax.table_reader import Reader
from windlass.jobs.syntax.text import Text, read_text
from windlass.jobs.syntax.value_types import choice, named, whole
from windlass.jobs.syntax.yaml_tree import compose

MAX_CLUSTER_NODES = 100_000


@dataclass(frozen=True, slots=True)
class Cluster:
    """The content of a cluster file. A queue called `default` is always among the queues."""

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    topology: Topology
    policy: Policy = field(default_factory=Policy)
    reservations: tuple[Reservation, ...] = ()


_NAME = named(NODE_NAME, "name", "small letters, digits, dashes and dots")
_TAINT: Table = (
    Field("key", "The taint's key.", named(r".+", "key", "a key"), example="gpu"),
    Field("value", "The taint's value.", value_types.WORD, default='""', example="'true'"),
    Field(
        "effect",
        "Effect on jobs without a matching toleration.",
        choice(("NoSchedule", "PreferNoSchedule", "NoExecute")),
        default="NoSchedule",
        example="NoExecute",
    ),
)
_AMOUNTS: Table = (
    Field("gpus", "GPUs.", whole(0, 1024), default="0", example="8", foreign_names=("gpu",)),
    Field(
        "cpus",
        "CPU cores.",
        value_types.CORES,
        default="one per GPU, at least 1",
        example="64",
        foreign_names=("cpu", "cores"),
    ),
    Field(
        "mem",
        "Memory.",
        value_types.BYTES,
        default="null: no job that asks for memory fits",
        example="1Ti",
        nullable=True,
        foreign_names=("memory",),
    ),
)
_NODE: Table = (
    Field("name", "The node's name. With count, the names are this and a number from 1 on.", _NAME, example="n"),
    Field("count", "Number of equal nodes.", whole(1, MAX_CLUSTER_NODES), default="one, without a number", example="2"),
    *_AMOUNTS,
    Field(
        "gpu_type",
        "The model of its GPUs, which jobs ask for by --gpu-type: its label gpu-type.",
        named(LABEL_VALUE, "model of GPU", "a model such as H100"),
        default="none",
        example="H100",
        foreign_names=("gpu_model",),
    ),
    Field(
        "sharing",
        "How its GPUs may be shared: not at all, milli (in parts, --gpu-share) or mig (in slices, --mig).",
        choice(("", "milli", "mig")),
        default='""',
        example="milli",
    ),
    Field("labels", "Labels that selectors match.", value_types.WORD, Shape.MAP, default="{}", example="{zone: a}"),
    Field(
        "taints",
        "Keep jobs without a toleration away.",
        shape=Shape.TABLES,
        default="[]",
        example="[{key: gpu, effect: NoSchedule}]",
        table=_TAINT,
    ),
    Field(
        "place",
        "Its domain at every level of the topology.",
        value_types.WORD,
        Shape.MAP,
        default="{}",
        example="{block: b1, rack: r1}",
        key_label="level",
    ),
    Field(
        "cordoned", "Reason why nothing may start on it.", value_types.TEXT, default='""', example="drained for repair"
    ),
)
CLUSTER: Table = (
    Field("nodes", "The nodes.", shape=Shape.TABLES, example="[{name: n, count: 2, gpus: 4}]", table=_NODE),
    Field(
        "queues",
        "The queues; there is always one called default.",
        shape=Shape.TABLES,
        default="[{name: default}]",
        example="[{name: research, quota: {gpu: 4}}]",
        table=QUEUE,
    ),
    Field(
        "topology",
        "The levels of the network, widest first.",
        _NAME,
        Shape.LIST,
        default="[]",
        example="[block, rack]",
    ),
    Field("policy", "Scheduling policy.", shape=Shape.TABLE, default="{}", example="{order: fair}", table=POLICY),
    Field(
        "reservations",
        "Nodes that are reserved for some jobs, or for none, for a time. windlass reserve adds more.",
        shape=Shape.TABLES,
        default="[]",
        example="[{name: repair, nodes: [n1], start: 2026-11-22T08:00, end: 2026-11-22T18:00}]",
        table=RESERVATION,
    ),
)


def load_cluster(path: str) -> Cluster:
    """Reads a cluster file, or standard input for "-".

    Raises InputError with all syntax problems, or else all inconsistencies between fields.
    """
    return read_cluster(read_text(path))


def read_cluster(text: Text) -> Cluster:
    """Reads the cluster of a text of one document. Raises InputError as `load_cluster` does."""
    documents = compose(text)
    if len(documents) != 1:
        raise input_error(text.source, f"a cluster file holds one document, not {len(documents)}")
    reader = Reader(text)
    values = reader.table(documents[0], CLUSTER, (), "a cluster")
    if not reader.problems:
        reader.problems += [reader.problem_at(path, message) for path, message in _check(values)]
    if reader.problems:
        raise InputError(reader.problems)
    levels = tuple(values.get("topology", ()))
    nodes = tuple(node for written in values["nodes"] for node in _nodes(written, levels))
    return Cluster(
        nodes,
        queues_of(values.get("queues", ())),
        Topology(levels),
        policy_of(values.get("policy", {})),
        reservations_of(values.get("reservations", ())),
    )


def _check(values: dict[str, Any]) -> Iterator[tuple[FieldPath, str]]:
    """Faults between fields: missing ones, names used twice, places that do not fit the topology."""
    nodes, levels = values.get("nodes", []), values.get("topology", [])
    if not nodes:
        yield ("nodes",), "a cluster needs nodes; write for example nodes: [{name: n, count: 2, gpus: 4}]"
    if sum(node.get("count", 1) for node in nodes) > MAX_CLUSTER_NODES:
        yield ("nodes",), f"more than {MAX_CLUSTER_NODES} nodes"
        return
    if len(set(levels)) < len(levels):
        yield ("topology",), "a level is named twice"
    queues = values.get("queues", [])
    wrong = list(_check_names("queues", queues))
    yield from (*_check_names("nodes", nodes), *wrong)
    if not wrong:
        yield from check_queues(queues, ("queues",))
    for number, node in enumerate(nodes):
        yield from _check_node(("nodes", number), node, levels)
    names = [name for node in nodes if "name" in node for name in _names(node)]
    if wrong_policy := check_policy(values.get("policy", {})):
        yield ("policy", "starvation_guard"), wrong_policy
    yield from check_reservations(values.get("reservations", ()), names, ("reservations",))


def _check_names(what: str, items: list[dict[str, Any]]) -> Iterator[tuple[FieldPath, str]]:
    taken: set[str] = set()
    for number, item in enumerate(items):
        if "name" not in item:
            yield (what, number), "it has no name"
            continue
        twice = taken.intersection(_names(item))
        if twice:
            yield (what, number, "name"), f"{min(twice)!r} is the name of another already"
        taken.update(_names(item))


def _check_node(path: FieldPath, node: dict[str, Any], levels: list[str]) -> Iterator[tuple[FieldPath, str]]:
    place = node.get("place", {})
    for level in place.keys() - set(levels):
        yield (*path, "place"), f"the topology has no level {level!r}; its levels are {', '.join(levels) or 'none'}"
    missing = [level for level in levels if level not in place]
    if node.get("sharing") and not node.get("gpus"):
        yield (*path, "sharing"), "it has no gpus that could be shared"
    if missing:
        yield (*path, "place") if place else path, f"its place lacks the level {missing[0]!r} of the topology"
    for taint, written in enumerate(node.get("taints", ())):
        if "key" not in written:
            yield (*path, "taints", taint), "a taint needs a key"


def _names(item: dict[str, Any]) -> list[str]:
    count = item.get("count")
    return [item["name"]] if count is None else [f"{item['name']}{number}" for number in range(1, count + 1)]


def _nodes(written: dict[str, Any], levels: tuple[str, ...]) -> Iterator[Node]:
    gpus = written.get("gpus", 0)
    amounts = {CPU: written.get("cpus", 1000 * max(1, gpus)), MEMORY: written.get("mem") or 0, GPU: gpus}
    for name in _names(written):
        yield Node(
            name=name,
            capacity={resource: amount for resource, amount in amounts.items() if amount},
            labels=_labels(written),
            taints=tuple(Taint(**taint) for taint in written.get("taints", ())),
            place=tuple(written["place"][level] for level in levels) if levels else (),
            cordoned=written.get("cordoned", ""),
            sharing=written.get("sharing", ""),
        )


def _labels(written: dict[str, Any]) -> dict[str, str]:
    model = written.get("gpu_type")
    return {**({GPU_TYPE: model} if model else {}), **written.get("labels", {})}
