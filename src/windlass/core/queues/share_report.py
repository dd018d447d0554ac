"""Report of usage and fair share by queue, which `windlass share` shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from windlass.core.model.gang import total_of
from windlass.core.model.snapshot import Snapshot
from windlass.core.queues.decayed_usage import SCALE
from windlass.core.queues.fair_share import Shares, past_usage_by_queue, total_capacity
from windlass.core.queues.queue_tree import Amounts, Tree, charge, charges, in_resource_units, tree_of
from windlass.core.queues.quota import maximum_quota
from windlass.core.queues.usage import NOTHING, QueueUsage

_FINE = 1 << 20
"""Resolution of the level of `water_fill`: a millionth of a unit per unit of weight."""


@dataclass(frozen=True, slots=True)
class QueueShare:
    """One queue and all below it. Amounts in the resources' own units; zeros are left out, except in quotas."""

    queue: str
    parent: str
    depth: int
    """0: a root."""
    weight: int
    quota: Mapping[str, int]
    """Its own nominal quota, plus what its children lend."""
    target: Mapping[str, int]
    """Fair amount now: its part by weight, at most what it requests and may hold, and at least its quota if it requests
    that much (Volcano's `proportion`).
    """
    held: Mapping[str, int]
    borrowed: Mapping[str, int]
    """Part of `held` beyond its quota."""
    lent: Mapping[str, int]
    """Part of its quota that relatives use. What several queues lend is divided in proportion to their idle quotas."""
    past: Mapping[str, int]
    """Decayed average, of queues that have a half-life."""
    share: int
    """In millionths of the cluster per unit of weight: the lowest among siblings goes first."""
    running: int
    """Number of running jobs."""
    waiting: int
    next: str
    """Its gang that goes first; "": no gang waits for its turn."""


def queue_shares(snapshot: Snapshot, order: Sequence[str] = ()) -> tuple[QueueShare, ...]:
    """Returns every queue, each before those below it. `order` is the plan's: ids of waiting gangs, next first."""
    tree = tree_of(snapshot.queues)
    usage = QueueUsage(tree, snapshot.usage_by_queue, snapshot.usage_by_user)
    shares = Shares(usage, total_capacity(snapshot.table), snapshot.past_usage)
    past = past_usage_by_queue(tree, snapshot.past_usage)
    wanted = _sum_requests(snapshot, tree)
    targets = _targets(shares, wanted)
    lent = _lent(usage)
    nexts = _next_by_queue(snapshot, tree, order)
    running, waiting = _counts(snapshot, tree)
    return tuple(
        QueueShare(
            queue=name,
            parent=tree.path[name][1] if depth else "",
            depth=depth,
            weight=max(tree.queues[name].weight, 1),
            quota=dict.fromkeys(tree.quota[name], 0) | in_resource_units(tree.quota[name]),
            target=in_resource_units(targets.get(name, NOTHING)),
            held=in_resource_units(usage.total(name)),
            borrowed=in_resource_units(_borrowed_amounts(usage, name)) if depth else {},
            lent=in_resource_units(lent.get(name, NOTHING)),
            past=in_resource_units({r: (a + SCALE // 2) // SCALE for r, a in past.get(name, NOTHING).items()}),
            share=shares.share(name),
            running=running.get(name, 0),
            waiting=waiting.get(name, 0),
            next=nexts.get(name, ""),
        )
        for name, depth in _walk_down(tree)
    )


def water_fill(total: int, claims: Sequence[Claim]) -> list[int]:
    """Divides `total`: each claim gets its weight times a common level, at least its floor and at most its cap.

    The remainder of rounding, or beyond all caps, is not assigned. If the floors exceed the total, they are reduced in
    proportion.
    """
    floors = sum(claim.floor for claim in claims)
    if floors > total:
        return [claim.floor * total // floors for claim in claims]
    low, high = 0, max((claim.cap * _FINE // claim.weight for claim in claims), default=0) + _FINE
    while high - low > 1:
        level = (low + high) // 2
        low, high = (level, high) if sum(claim.at(level) for claim in claims) <= total else (low, level)
    return [claim.at(low) for claim in claims]


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim of one side in a division. `floor` is at most `cap`."""

    weight: int
    floor: int
    cap: int

    def at(self, level: int) -> int:
        """Returns its amount at a water level, in 1/_FINE of a unit per unit of weight."""
        return min(self.cap, max(self.floor, level * self.weight // _FINE))


def _walk_down(tree: Tree) -> Iterator[tuple[str, int]]:
    """Yields every queue and its depth, each before those below it, siblings by name."""

    def below(name: str, depth: int) -> Iterator[tuple[str, int]]:
        yield name, depth
        for child in tree.children.get(name, ()):
            yield from below(child, depth + 1)

    for name in sorted(tree.queues):
        if len(tree.path[name]) == 1:
            yield from below(name, 0)


@dataclass(slots=True)
class _Wanted:
    """By queue, usage plus requests of its jobs, in the units of `queue_tree.charge`."""

    own: dict[str, dict[str, int]] = field(default_factory=dict)
    total: dict[str, dict[str, int]] = field(default_factory=dict)


def _sum_requests(snapshot: Snapshot, tree: Tree) -> _Wanted:
    found = _Wanted()

    def add(queue: str, amounts: Amounts, times: int) -> None:
        for sums in (
            found.own.setdefault(queue, {}),
            *(found.total.setdefault(q, {}) for q in tree.path.get(queue, ())),
        ):
            for name, amount in amounts.items():
                sums[name] = sums.get(name, 0) + amount * times

    for queue, held in snapshot.usage_by_queue.items():
        add(queue, charges(held), 1)
    for each in snapshot.classes:
        add(each.gangs[0].queue, charges(total_of(each.gangs[0].demands)), len(each.gangs))
    return found


def _targets(shares: Shares, wanted: _Wanted) -> dict[str, dict[str, int]]:
    """Computes targets level by level from the roots down, each resource separately."""
    tree, targets = shares.tree, {name: dict[str, int]() for name in shares.tree.queues}
    roots = [name for name, depth in _walk_down(tree) if not depth]
    for resource, capacity in shares.capacity.items():
        _divide(tree, roots, capacity, resource, wanted, targets)
        for name, _ in _walk_down(tree):
            if name in tree.children:
                _divide(tree, tree.children[name], targets[name].get(resource, 0), resource, wanted, targets, own=name)
    return targets


def _divide(
    tree: Tree,
    queues: Sequence[str],
    total: int,
    resource: str,
    wanted: _Wanted,
    targets: dict[str, dict[str, int]],
    own: str = "",
) -> None:
    """Divides a total among siblings; `own` names their parent, whose own jobs take part with a weight of 1."""
    claims = [_claim(tree, name, resource, wanted.total.get(name, NOTHING).get(resource, 0)) for name in queues]
    if own:
        requested = wanted.own.get(own, NOTHING).get(resource, 0)
        claims.append(Claim(1, min(charge(tree.queues[own].nominal, resource), requested), requested))
    for name, target in zip(queues, water_fill(total, claims), strict=False):
        targets[name][resource] = target


def _claim(tree: Tree, name: str, resource: str, requested: int) -> Claim:
    most = maximum_quota(tree, name, resource)
    cap = requested if most is None else min(requested, most)
    return Claim(max(tree.queues[name].weight, 1), min(tree.quota[name].get(resource, 0), cap), cap)


def _borrowed_amounts(usage: QueueUsage, name: str) -> dict[str, int]:
    """Returns what a queue that has a parent holds beyond its quota."""
    quota, used = usage.tree.quota[name], usage.charged(name)
    limited = usage.tree.limited_resources[name]
    return {r: over for r, amount in used.items() if r in limited and (over := amount - quota.get(r, 0)) > 0}


def _lent(usage: QueueUsage) -> dict[str, dict[str, int]]:
    """Returns the part of each queue's idle quota that its siblings have borrowed, in proportion to idle quotas."""
    tree, lent = usage.tree, dict[str, dict[str, int]]()
    for parent, children in tree.children.items():
        own = usage.own(parent)
        for resource in tree.contested_resources[parent]:
            idle = {name: _idle(usage, name, resource) for name in children}
            nominal = charge(tree.queues[parent].nominal, resource)
            borrowed = sum(_borrowed_amounts(usage, name).get(resource, 0) for name in children)
            borrowed += max(own.get(resource, 0) - nominal, 0)
            there = sum(idle.values()) + max(nominal - own.get(resource, 0), 0)
            for name, amount in idle.items():
                if part := amount * min(borrowed, there) // max(there, 1):
                    lent.setdefault(name, {})[resource] = part
    return lent


def _idle(usage: QueueUsage, name: str, resource: str) -> int:
    """Returns the quota that the queue would lend and does not use itself."""
    tree = usage.tree
    shared = max(usage.charged(name).get(resource, 0), tree.unlent[name].get(resource, 0))
    return max(tree.quota[name].get(resource, 0) - shared, 0)


def _counts(snapshot: Snapshot, tree: Tree) -> tuple[dict[str, int], dict[str, int]]:
    """Returns, by queue with all below it, the numbers of jobs that hold nodes and of jobs that wait."""
    running: dict[str, int] = {}
    waiting: dict[str, int] = {}
    for (queue, _), holding in snapshot.usage_by_user.items():
        for name in tree.path.get(queue, ()):
            running[name] = running.get(name, 0) + holding.jobs
    for each in snapshot.classes:
        for name in tree.path.get(each.gangs[0].queue, ()):
            waiting[name] = waiting.get(name, 0) + len(each.gangs)
    return running, waiting


def _next_by_queue(snapshot: Snapshot, tree: Tree, order: Sequence[str]) -> dict[str, str]:
    queues = {gang.id: gang.queue for each in snapshot.classes for gang in each.gangs}
    found: dict[str, str] = {}
    for job_id in order:
        for name in tree.path.get(queues.get(job_id, ""), ()):
            found.setdefault(name, job_id)
    return found
