"""What a queue may still take: its own quota, what its relatives lend, and the limits on both.

The recursion is `available()` of Kueue (pkg/cache/scheduler/resource_node.go, KEP-79) over `cohort.Tree`. Amounts that
come out are such as `cohort.charge` counts them: GPUs in thousandths. A queue without a quota costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from windlass.core.model.job import DEFAULT_QUEUE
from windlass.core.model.queue import Queue
from windlass.core.model.reasons import Reason, Verdict
from windlass.core.model.resources import GPU, GPU_MILLI, format_quantity
from windlass.core.queues.queue_tree import Amounts, Tree, charge
from windlass.core.queues.usage import QueueUsage

_NO_LIMIT: frozenset[str] = frozenset()


def queue_named(queues: Mapping[str, Queue], name: str) -> Queue | None:
    """The queue, or None. The default queue is there, without a limit, even if nobody declared it."""
    return queues.get(name) or (Queue(DEFAULT_QUEUE) if name == DEFAULT_QUEUE else None)


def available(usage: QueueUsage, queue: str, resource: str) -> int | None:
    """How much more of a resource the queue may take now; less than 0 if too much is held already. None: any amount."""
    tree = usage.tree
    if resource not in tree.limited.get(queue, _NO_LIMIT):
        return None
    *below, root = tree.path[queue]
    left = tree.quota[root].get(resource, 0) - usage.charged(root).get(resource, 0)
    for name in reversed(below):
        left = _through(usage, name, resource, left)
    return left


@lru_cache(maxsize=4096)
def maximum(tree: Tree, queue: str, resource: str) -> int | None:
    """The same if nobody held anything: the most that the queue can ever have."""
    return available(QueueUsage(tree, {}, {}), queue, resource)


def exceeds_available(usage: QueueUsage, queue: str, request: Amounts) -> str:
    """The first resource, by name, of which the queue may not take so much now; "" if it may take all."""
    wanted = _asked(usage.tree, queue, request)
    return next((name for name, asked in wanted if asked > (available(usage, queue, name) or 0)), "")


def exceeds_maximum(tree: Tree, queue: str, request: Amounts) -> str:
    """The first resource, by name, of which the queue may never hold so much; "" if there is none."""
    wanted = _asked(tree, queue, request)
    return next((name for name, asked in wanted if asked > (maximum(tree, queue, name) or 0)), "")


def blocked_by_claims(reserved_usage: QueueUsage, queue: str, request: Amounts) -> str:
    """The first resource, by name, that must be left to gangs which wait and go first; "" if there is none.

    `reserved_usage` is what is held and what those gangs will take. Within its own quota, or within that of the queues
    above it, a queue gives way to the gangs of that same quota alone: what others wait to borrow is no claim on it.
    """
    wanted = _asked(reserved_usage.tree, queue, request)
    return next((name for name, asked in wanted if not _undisputed(reserved_usage, queue, name, asked)), "")


def claim_queue(tree: Tree, queue: str, request: Amounts) -> str:
    """The lowest queue, from this one up, whose own quota is enough: there a gang that waits has its claim.

    What a gang needs beyond its queue's own quota is nobody's right, so it does not keep that quota from smaller gangs;
    but nobody else may borrow before it does.
    """
    path = tree.path.get(queue, (queue,))
    if len(path) == 1:
        return path[0]
    wanted = list(_asked(tree, queue, request))
    enough = (name for name in path if all(asked <= tree.quota[name].get(r, 0) for r, asked in wanted))
    return next(enough, path[-1])


def increase_along(usage: QueueUsage, path: Sequence[str], resource: str, amount: int) -> int:
    """How much more is drawn of the quota of the last queue of `path` if the first, at its bottom, takes `amount`.

    A queue that keeps a part for itself draws on its parent only with what goes beyond that part.
    """
    if usage.tree.keeps:
        for name in path[:-1]:
            kept = usage.tree.unlent[name].get(resource, 0)
            used = usage.charged(name).get(resource, 0)
            amount = max(used + amount - kept, 0) - max(used - kept, 0)
    return amount


def quota_verdict(usage: QueueUsage, queue: str, request: Amounts) -> Verdict | None:
    """Why quota keeps a gang of the queue out, or None if it does not."""
    tree = usage.tree
    if queue in tree.faults:
        return Verdict(Reason.MISCONFIGURED, f"{tree.faults[queue].message}; nothing of {queue} can start")
    if resource := exceeds_maximum(tree, queue, request):
        most = maximum(tree, queue, resource) or 0
        asked = _amount(resource, charge(request, resource))
        text = f"asks for {asked}, queue {queue} may hold {format_amount(resource, most)}"
        if most > tree.quota[queue].get(resource, 0):
            text += ", all that it could borrow included"
        return resource_verdict(Reason.EXCEEDS_MAX_QUOTA, text, resource, charge(request, resource))
    if resource := exceeds_available(usage, queue, request):
        wanted = charge(request, resource)
        text = f"needs {_amount(resource, wanted)}: {describe_binding_limit(usage, queue, resource)}"
        return resource_verdict(
            Reason.WAITING_FOR_QUOTA, text, resource, wanted, max(available(usage, queue, resource) or 0, 0)
        )
    return None


def describe_binding_limit(usage: QueueUsage, queue: str, resource: str) -> str:
    """In words, which limit up the tree leaves the queue so little of a resource."""
    tree, path = usage.tree, usage.tree.path[queue]
    held, quota = usage.charged(queue).get(resource, 0), tree.quota[queue].get(resource, 0)
    if len(path) == 1:
        return (
            f"queue {queue} holds {format_amount(resource, held)} of the {format_amount(resource, quota)} it may hold"
        )
    name = _binds(usage, queue, resource)
    if name in tree.borrowing and resource in tree.borrowing[name]:
        drawn, has = usage.charged(name).get(resource, 0), tree.quota[name].get(resource, 0)
        most, over = tree.borrowing[name][resource], drawn > has
        lent = f"may borrow {format_amount(resource, most)}{'' if over else ' more'}" if most else "may not borrow"
        return f"queue {name} {_holding(resource, drawn, has)}{',' * over} and {lent}"
    total = tree.quota[name].get(resource, 0)
    own = _holding(resource, held, quota) if quota else f"has no {resource} of its own"
    left = total - usage.charged(name).get(resource, 0)
    rest = (
        f"{format_amount(resource, left)} of its {format_amount(resource, total)} left"
        if left > 0
        else f"lent all {format_amount(resource, total)}"
    )
    return f"queue {queue} {own}; its cohort {name} has {rest}"


def _binds(usage: QueueUsage, queue: str, resource: str) -> str:
    """The queue, from the root down, whose limit is the last that takes something away."""
    tree = usage.tree
    *below, root = tree.path[queue]
    found, left = root, tree.quota[root].get(resource, 0) - usage.charged(root).get(resource, 0)
    for name in reversed(below):
        if (most := _may_borrow(usage, name, resource)) is not None and most < left:
            found = name
        left = _through(usage, name, resource, left)
    return found


def _through(usage: QueueUsage, name: str, resource: str, left: int) -> int:
    """What a queue may take if its parent could give it `left`."""
    most = _may_borrow(usage, name, resource)
    if most is not None and most < left:
        left = most
    kept = usage.tree.unlent[name].get(resource, 0)
    return left + max(kept - usage.charged(name).get(resource, 0), 0) if kept else left


def _may_borrow(usage: QueueUsage, name: str, resource: str) -> int | None:
    """What the queue's own limits let it take through its parent; None: there is no such limit."""
    limit = usage.tree.borrowing[name].get(resource)
    if limit is None:
        return None
    has, kept = usage.tree.quota[name].get(resource, 0), usage.tree.unlent[name].get(resource, 0)
    return has - kept + limit - max(usage.charged(name).get(resource, 0) - kept, 0)


def _holding(resource: str, held: int, quota: int) -> str:
    if held > quota:
        borrowed = format_amount(resource, held - quota)
        return f"holds {format_amount(resource, held)} {resource}, {borrowed} of them borrowed"
    return f"holds {format_amount(resource, held)} of its {format_amount(resource, quota)} {resource}"


def _undisputed(reserved_usage: QueueUsage, queue: str, resource: str, amount: int) -> bool:
    """Whether some queue up the tree has room for it, beyond all that is spoken for, without borrowing."""
    tree = reserved_usage.tree
    path = tree.path[queue]
    for place, name in enumerate(path):
        more = increase_along(reserved_usage, path[: place + 1], resource, amount)
        if reserved_usage.charged(name).get(resource, 0) + more <= tree.quota[name].get(resource, 0):
            return True
        most = _may_borrow(reserved_usage, name, resource)
        if most is not None and more > most:
            return False
    return False


def _asked(tree: Tree, queue: str, request: Amounts) -> Iterator[tuple[str, int]]:
    """By name: the resources that are asked for and limited, and how much is asked for."""
    for name in sorted(tree.limited.get(queue, _NO_LIMIT)):
        if (asked := charge(request, name)) > 0:
            yield name, asked


def resource_verdict(reason: Reason, text: str, resource: str, wanted: int, free: int = 0) -> Verdict:
    """A verdict with its numbers in the resource's own unit: whole GPUs if it is about whole ones."""
    if resource == GPU and wanted % 1000 == 0:
        wanted, free = wanted // 1000, free // 1000
    elif resource == GPU:
        resource = GPU_MILLI
    return Verdict(reason, text, resource, wanted, free=free, usable=free)


def format_amount(resource: str, amount: int) -> str:
    """In words, an amount as `cohort.charge` counts it."""
    if resource == GPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount / 1000:g}"
    return format_quantity(resource, amount)


def _amount(resource: str, amount: int) -> str:
    return f"{format_amount(resource, amount)} {resource}"
