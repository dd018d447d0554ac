"""Trees of queues: parents and children, and the quota that each queue may use, lend and keep.

Quotas add up as in Kueue's cohorts (KEP-79): the quota of a queue is its own nominal quota plus all that its children
lend. `gpu` is counted in thousandths here, so that whole GPUs and parts of them draw on one quota.
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
    """A fault of a queue's place in the tree. `field` is the field of `Queue` to change."""

    queue: str
    field: str
    message: str


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """One set of queues, computed once; it always includes the default queue. Amounts are in the units of `charge`."""

    queues: Mapping[str, Queue]
    path: Mapping[str, tuple[str, ...]]
    """The queue itself, its parent, and so on up to its root."""
    children: Mapping[str, tuple[str, ...]]
    """Sorted by name, of the queues that have any."""
    limited_resources: Mapping[str, frozenset[str]]
    """Resources that any queue of the whole tree names in a quota; all others are unlimited."""
    quota: Mapping[str, Amounts]
    """Own nominal quota plus what the children lend, of the resources that any queue from here down names."""
    unlent: Mapping[str, Amounts]
    """The part of `quota` that a lending limit keeps back."""
    borrowing: Mapping[str, Amounts]
    """Limits on borrowing, of the queues that have a parent."""
    contested_resources: Mapping[str, frozenset[str]]
    """For queues with children: resources of which some child has a quota. For the other resources, which only queues
    further up name, no child has a part of its own: none of them borrows it, and none can reclaim it.
    """
    has_unlent_quota: bool
    """Some queue keeps a part back."""
    job_limited: frozenset[str]
    """Queues that limit the number of running jobs, or the usage per user."""
    faults: Mapping[str, QueueFault]
    """Queues of which no job may start, because the tree above them is broken."""


def charge(amounts: Amounts, resource: str) -> int:
    """Returns how much of a quota of `resource` these amounts use."""
    if resource == GPU:
        gpus = 0
        for name, amount in amounts.items():
            gpus += amount * gpu_thousandths(name)
        return gpus
    return amounts.get(resource, 0)


def charges(amounts: Amounts) -> dict[str, int]:
    """Returns the use of every quota by these amounts."""
    found, gpus = dict(amounts), 0
    for name, amount in amounts.items():
        if part := gpu_thousandths(name):
            gpus += amount * part
    if gpus:
        found[GPU] = gpus
    return found


def in_resource_units(amounts: Amounts) -> dict[str, int]:
    """Returns the amounts in the resources' own units: whole GPUs, the rest in thousandths; zeros are left out."""
    plain = {name: amount for name, amount in amounts.items() if amount and not gpu_thousandths(name)}
    whole, rest = divmod(amounts.get(GPU, 0), 1000)
    return {**({GPU: whole} if whole else {}), **({GPU_MILLI: rest} if rest else {}), **plain}


@lru_cache(maxsize=256)
def gpu_thousandths(resource: str) -> int:
    """Returns the part of a GPU in one unit of a resource; MIG instances by compute slices, of seven. 0: no GPU."""
    if resource.startswith(MIG_PREFIX):
        slices = resource.removeprefix(MIG_PREFIX).partition("g")[0]
        return int(slices) * 1000 // 7 if slices.isdecimal() else 0
    return {GPU: 1000, GPU_MILLI: 1}.get(resource, 0)


def find_faults(queues: Mapping[str, Queue]) -> Iterator[QueueFault]:
    """Yields unknown or circular parents, and limits without a quota to limit."""
    for name, queue in queues.items():
        if queue.parent and queue.parent not in queues:
            text = f"there is no queue {queue.parent}; declare it, or leave parent out"
            yield QueueFault(name, "parent", text)
        elif name in (circle := _ancestors(queues, name)):
            text = f"{' → '.join((name, *circle[: circle.index(name) + 1]))} goes round in a circle; one has no parent"
            yield QueueFault(name, "parent", text)
    tree = tree_of(queues)
    for queue in queues.values():
        for kind in ("borrowing", "lending"):
            yield from _idle_limits(tree, queue, kind)


def tree_of(queues: Mapping[str, Queue]) -> Tree:
    """Returns the tree of a set of queues; cached by the identity of the mapping, which must not change."""
    return _tree_of(_Identity(queues))


class _Identity:
    """A key that compares a mapping by identity, and keeps it alive, so that its id is not reused."""

    __slots__ = ("queues",)

    def __init__(self, queues: Mapping[str, Queue]) -> None:
        self.queues = queues

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.queues is self.queues

    def __hash__(self) -> int:
        return id(self.queues)


@lru_cache(maxsize=16)
def _tree_of(identity: _Identity) -> Tree:
    queues = (
        identity.queues
        if DEFAULT_QUEUE in identity.queues
        else {**identity.queues, DEFAULT_QUEUE: Queue(DEFAULT_QUEUE)}
    )
    faults = {name: fault for name in queues if (fault := _fault(queues, name))}
    path = {name: (name,) if name in faults else (name, *_ancestors(queues, name)) for name in queues}
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
        limited_resources={name: limited[path[name][-1]] for name in queues},
        quota=quota,
        unlent=kept,
        borrowing={name: _scale(queues[name].borrowing) if len(path[name]) > 1 else {} for name in queues},
        contested_resources={
            name: frozenset().union(*(quota[child] for child in below)) for name, below in children.items()
        },
        has_unlent_quota=any(kept.values()),
        job_limited=frozenset(name for name, q in queues.items() if q.max_running or q.user_running or q.user_limits),
        faults=faults,
    )


def _ancestors(queues: Mapping[str, Queue], name: str) -> tuple[str, ...]:
    """Returns the parent, its parent, …; a circle is followed once around."""
    found: list[str] = []
    parent = queues[name].parent
    while parent in queues and parent not in found:
        found.append(parent)
        parent = queues[parent].parent
    return tuple(found)


def _fault(queues: Mapping[str, Queue], name: str) -> QueueFault | None:
    """Returns the first fault from this queue upwards."""
    for above in (name, *_ancestors(queues, name)):
        parent = queues[above].parent
        if parent and parent not in queues:
            return QueueFault(name, "parent", f"queue {above} names a parent {parent} that does not exist")
        if above in _ancestors(queues, above):
            return QueueFault(name, "parent", f"queue {above} is its own ancestor")
    return None


def _quotas(
    queues: Mapping[str, Queue], path: Mapping[str, tuple[str, ...]]
) -> tuple[dict[str, Amounts], dict[str, Amounts]]:
    """Computes, from the leaves up, the quota of each queue and the part that it keeps back."""
    quota: dict[str, dict[str, int]] = {name: _scale(queue.nominal) for name, queue in queues.items()}
    kept: dict[str, dict[str, int]] = {}
    for name in sorted(queues, key=lambda name: -len(path[name])):
        has, lends = quota[name], _scale(queues[name].lending)
        alone = len(path[name]) == 1
        kept[name] = {} if alone else {r: most - lends[r] for r, most in has.items() if r in lends and most > lends[r]}
        if not alone:
            parent = quota[path[name][1]]
            for resource, most in has.items():
                parent[resource] = parent.get(resource, 0) + most - kept[name].get(resource, 0)
    return dict(quota), dict(kept)


def _scale(amounts: Amounts) -> dict[str, int]:
    return {name: amount * 1000 if name == GPU else amount for name, amount in amounts.items()}


def _idle_limits(tree: Tree, queue: Queue, kind: str) -> Iterator[QueueFault]:
    limits: Amounts = queue.borrowing if kind == "borrowing" else queue.lending
    for resource in limits:
        if len(tree.path[queue.name]) == 1 and not queue.parent:
            text = f"it has no parent, so there is no queue to {'borrow from' if kind == 'borrowing' else 'lend to'}"
            yield QueueFault(queue.name, kind, f"{text}; give it one, or leave {kind} out")
            return
        has = tree.limited_resources[queue.name] if kind == "borrowing" else tree.quota[queue.name]
        if resource not in has:
            owner = "no queue of its tree has a" if kind == "borrowing" else "it has no"
            yield QueueFault(
                queue.name, kind, f"limits {resource}, of which {owner} quota; give it one, or leave it out"
            )
