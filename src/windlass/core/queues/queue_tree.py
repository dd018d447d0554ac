"""Trees of queues: who stands under whom, and what each may use, lend and keep.

Quotas add up as in Kueue's cohorts (KEP-79): what a queue has is its own nominal quota and all that its children lend.
`gpu` is counted in thousandths here, so that whole GPUs and parts of them draw on one quota.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from windlass.core.model.job import DEFAULT_QUEUE
from windlass.core.model.mig import PREFIX as MIG_PREFIX
from windlass.core.model.queue import Queue
from windlass.core.model.resources import GPU, GPU_MILLI

Amounts: TypeAlias = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class QueueFault:
    """What is wrong with a queue's place in the tree. `field` is the one of `Queue` that has to change."""

    queue: str
    field: str
    message: str


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """One set of queues, worked out once; the default queue is always among them. Amounts as `charge` gives them."""

    queues: Mapping[str, Queue]
    path: Mapping[str, tuple[str, ...]]
    """The queue itself, its parent, and so on up to its root."""
    children: Mapping[str, tuple[str, ...]]
    """Of the queues that have some; by name."""
    limited: Mapping[str, frozenset[str]]
    """The resources that anybody in the queue's whole tree names in a quota: of all others it may take any amount."""
    quota: Mapping[str, Amounts]
    """Of the resources that somebody from here down names: own nominal, and what the children lend."""
    unlent: Mapping[str, Amounts]
    """The part of `quota` that is not lent, where a lending limit says so."""
    borrowing: Mapping[str, Amounts]
    """The limits on what is borrowed, of those queues that have a parent."""
    disputed: Mapping[str, frozenset[str]]
    """Of the queues that have children: the resources of which some child has a quota. Of what is left, which only
    queues further up name, no child has a part of its own: none of them borrows it, and none can ask for it back."""
    keeps: bool
    """Whether anybody keeps a part."""
    job_limited: frozenset[str]
    """The queues that limit how many jobs run, or what a user may hold."""
    faults: Mapping[str, QueueFault]
    """Queues of which nothing may start, because the tree above them is broken."""


def charge(amounts: Amounts, resource: str) -> int:
    """So much of a quota of `resource` do these amounts take up."""
    if resource == GPU:
        gpus = 0
        for name, amount in amounts.items():
            gpus += amount * gpu_thousandths(name)
        return gpus
    return amounts.get(resource, 0)


def charges(amounts: Amounts) -> dict[str, int]:
    """All that these amounts take up, of every quota."""
    found, gpus = dict(amounts), 0
    for name, amount in amounts.items():
        if part := gpu_thousandths(name):
            gpus += amount * part
    if gpus:
        found[GPU] = gpus
    return found


def in_resource_units(amounts: Amounts) -> dict[str, int]:
    """The same in the resources' own units: GPUs whole, the rest of them in thousandths, and nothing that is zero."""
    plain = {name: amount for name, amount in amounts.items() if amount and not gpu_thousandths(name)}
    whole, rest = divmod(amounts.get(GPU, 0), 1000)
    return {**({GPU: whole} if whole else {}), **({GPU_MILLI: rest} if rest else {}), **plain}


@lru_cache(maxsize=256)
def gpu_thousandths(resource: str) -> int:
    """What one of it is of a GPU: MIG instances by their compute slices, of which a GPU has seven. 0: it is no GPU."""
    if resource.startswith(MIG_PREFIX):
        slices = resource.removeprefix(MIG_PREFIX).partition("g")[0]
        return int(slices) * 1000 // 7 if slices.isdecimal() else 0
    return {GPU: 1000, GPU_MILLI: 1}.get(resource, 0)


def find_faults(queues: Mapping[str, Queue]) -> Iterator[QueueFault]:
    """Parents that are not there or go round in a circle, and limits without a quota that they could limit."""
    for name, queue in queues.items():
        if queue.parent and queue.parent not in queues:
            text = f"there is no queue {queue.parent}; declare it, or leave parent out"
            yield QueueFault(name, "parent", text)
        elif name in (circle := _above(queues, name)):
            text = f"{' → '.join((name, *circle[: circle.index(name) + 1]))} goes round in a circle; one has no parent"
            yield QueueFault(name, "parent", text)
    tree = tree_of(queues)
    for queue in queues.values():
        for kind in ("borrowing", "lending"):
            yield from _idle_limits(tree, queue, kind)


def tree_of(queues: Mapping[str, Queue]) -> Tree:
    """The tree of a set of queues; the same object while the set is the same one (by identity, and never changed)."""
    return _tree_of(_Same(queues))


class _Same:
    """Stands for a mapping by its identity, and keeps it alive, so that no other one can take its place."""

    __slots__ = ("queues",)

    def __init__(self, queues: Mapping[str, Queue]) -> None:
        self.queues = queues

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.queues is self.queues

    def __hash__(self) -> int:
        return id(self.queues)


@lru_cache(maxsize=16)
def _tree_of(same: _Same) -> Tree:
    queues = same.queues if DEFAULT_QUEUE in same.queues else {**same.queues, DEFAULT_QUEUE: Queue(DEFAULT_QUEUE)}
    faults = {name: fault for name in queues if (fault := _fault(queues, name))}
    path = {name: (name,) if name in faults else (name, *_above(queues, name)) for name in queues}
    children: dict[str, list[str]] = {}
    for name in sorted(queues):
        if len(path[name]) > 1:
            children.setdefault(path[name][1], []).append(name)
    limited: dict[str, frozenset[str]] = {}
    for name, queue in queues.items():
        limited[path[name][-1]] = limited.get(path[name][-1], frozenset()) | queue.nominal.keys()
    quota, kept = _quotas(queues, path)
    return Tree(
        queues=queues,
        path=path,
        children={name: tuple(below) for name, below in children.items()},
        limited={name: limited[path[name][-1]] for name in queues},
        quota=quota,
        unlent=kept,
        borrowing={name: _scaled(queues[name].borrowing) if len(path[name]) > 1 else {} for name in queues},
        disputed={name: frozenset().union(*(quota[child] for child in below)) for name, below in children.items()},
        keeps=any(kept.values()),
        job_limited=frozenset(name for name, q in queues.items() if q.max_running or q.user_running or q.user_limits),
        faults=faults,
    )


def _above(queues: Mapping[str, Queue], name: str) -> tuple[str, ...]:
    """Parent, its parent, …; a circle is followed once around."""
    found: list[str] = []
    parent = queues[name].parent
    while parent in queues and parent not in found:
        found.append(parent)
        parent = queues[parent].parent
    return tuple(found)


def _fault(queues: Mapping[str, Queue], name: str) -> QueueFault | None:
    """The first thing that is wrong from here up."""
    for above in (name, *_above(queues, name)):
        parent = queues[above].parent
        if parent and parent not in queues:
            return QueueFault(name, "parent", f"queue {above} names a parent {parent} that does not exist")
        if above in _above(queues, above):
            return QueueFault(name, "parent", f"queue {above} is its own ancestor")
    return None


def _quotas(
    queues: Mapping[str, Queue], path: Mapping[str, tuple[str, ...]]
) -> tuple[dict[str, Amounts], dict[str, Amounts]]:
    """From the leaves up: what each queue has, and what of it nobody else may use."""
    quota: dict[str, dict[str, int]] = {name: _scaled(queue.nominal) for name, queue in queues.items()}
    kept: dict[str, dict[str, int]] = {}
    for name in sorted(queues, key=lambda name: -len(path[name])):
        has, lends = quota[name], _scaled(queues[name].lending)
        alone = len(path[name]) == 1
        kept[name] = {} if alone else {r: most - lends[r] for r, most in has.items() if r in lends and most > lends[r]}
        if not alone:
            parent = quota[path[name][1]]
            for resource, most in has.items():
                parent[resource] = parent.get(resource, 0) + most - kept[name].get(resource, 0)
    return dict(quota), dict(kept)


def _scaled(amounts: Amounts) -> dict[str, int]:
    return {name: amount * 1000 if name == GPU else amount for name, amount in amounts.items()}


def _idle_limits(tree: Tree, queue: Queue, kind: str) -> Iterator[QueueFault]:
    limits: Amounts = queue.borrowing if kind == "borrowing" else queue.lending
    for resource in limits:
        if len(tree.path[queue.name]) == 1 and not queue.parent:
            text = f"it has no parent, so there is nobody to {'borrow from' if kind == 'borrowing' else 'lend to'}"
            yield QueueFault(queue.name, kind, f"{text}; give it one, or leave {kind} out")
            return
        has = tree.limited[queue.name] if kind == "borrowing" else tree.quota[queue.name]
        if resource not in has:
            whose = "nobody in its tree has a" if kind == "borrowing" else "it has no"
            yield QueueFault(
                queue.name, kind, f"limits {resource}, of which {whose} quota; give it one, or leave it out"
            )
