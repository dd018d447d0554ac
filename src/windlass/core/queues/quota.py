"""Available quota of a queue: its own quota, what its relatives lend, and the limits on both.

The recursion is `available()` of Kueue (pkg/cache/scheduler/resource_node.go, KEP-79) over `queue_tree.Tree`. Results
are in the units of `queue_tree.charge`: GPUs in thousandths. A queue without a quota costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from windlass.core.model.job import DEFAULT_QUEUE
from windlass.core.model.queue import Queue
from windlass.core.model.reasons import Limit, Reason, Verdict
from windlass.core.model.resources import GPU, GPU_MILLI, format_readable
from windlass.core.queues.queue_tree import Amounts, Tree, charge
from windlass.core.queues.usage import QueueUsage

_NO_LIMIT: frozenset[str] = frozenset()


def queue_named(queues: Mapping[str, Queue], name: str) -> Queue | None:
    """Returns the queue, or None. The default queue always exists, without a limit."""
    return queues.get(name) or (Queue(DEFAULT_QUEUE) if name == DEFAULT_QUEUE else None)


def available_quota(usage: QueueUsage, queue: str, resource: str) -> int | None:
    """Returns how much more of a resource the queue may take now; negative if it holds too much. None: unlimited."""
    tree = usage.tree
    if resource not in tree.limited_resources.get(queue, _NO_LIMIT):
        return None
    *below, root = tree.path[queue]
    left = tree.quota[root].get(resource, 0) - usage.charged(root).get(resource, 0)
    for name in reversed(below):
        left = _available_through(usage, name, resource, left)
    return left


@lru_cache(maxsize=4096)
def maximum_quota(tree: Tree, queue: str, resource: str) -> int | None:
    """Returns the most that the queue can ever hold: the same without any usage."""
    return available_quota(QueueUsage(tree, {}, {}), queue, resource)


def exceeds_available(usage: QueueUsage, queue: str, request: Amounts) -> str:
    """Returns the first resource, by name, of which the request exceeds what the queue may take now, or ""."""
    wanted = _limited_request(usage.tree, queue, request)
    return next((name for name, requested in wanted if requested > (available_quota(usage, queue, name) or 0)), "")


def exceeds_maximum(tree: Tree, queue: str, request: Amounts, *, may_borrow: bool = True) -> str:
    """Returns the first resource, by name, of which the request exceeds what the queue may ever hold, or "".

    `may_borrow` is false for a gang that is not preemptible.
    """
    wanted = _limited_request(tree, queue, request)
    exceeded = (name for name, requested in wanted if requested > (maximum_quota(tree, queue, name) or 0))
    return next(exceeded, "") or ("" if may_borrow else exceeds_own_quota(QueueUsage(tree, {}, {}), queue, request)[0])


def exceeds_own_quota(firm: QueueUsage, queue: str, request: Amounts) -> tuple[str, str]:
    """Returns the first resource, by name, of which a gang that is not preemptible would use what others lend, or "".

    `firm` is the usage of such gangs alone: the others in the queue can be stopped. Lent is what another queue could
    reclaim (`fair_share.can_reclaim`). Also returns the queue whose quota is exceeded: this one, or a queue above it
    whose quota its children share.
    """
    path = firm.tree.path.get(queue, (queue,))
    wanted = _limited_request(firm.tree, queue, request)
    return next(((name, above) for name, asked in wanted if (above := _borrower(firm, path, name, asked))), ("", ""))


def _borrower(usage: QueueUsage, path: Sequence[str], resource: str, amount: int) -> str:
    """Returns the highest queue of the path that would borrow what others could reclaim from all below it; "": none."""
    tree, queue = usage.tree, path[0]
    if queue in tree.children:
        nominal = charge(tree.queues[queue].nominal, resource)
        if usage.own(queue).get(resource, 0) + amount <= nominal:
            return ""
        if resource in tree.contested_resources[queue]:
            return queue
    for place, (level, parent) in enumerate(pairwise(path)):
        more = increase_along(usage, path[: place + 1], resource, amount)
        if usage.charged(level).get(resource, 0) + more <= tree.quota[level].get(resource, 0):
            return ""
        if resource in tree.contested_resources[parent]:
            return level
    return ""


def blocked_by_claims(reserved_usage: QueueUsage, queue: str, request: Amounts) -> str:
    """Returns the first resource, by name, that must be left to waiting gangs ahead, or "".

    `reserved_usage` is current usage plus what those gangs will take. Within its own quota, or that of the queues above
    it, a queue yields only to gangs of that same quota: a gang of another queue that waits to borrow has no claim on
    it.
    """
    wanted = _limited_request(reserved_usage.tree, queue, request)
    return next((name for name, requested in wanted if not _fits_own_quota(reserved_usage, queue, name, requested)), "")


def claim_queue(tree: Tree, queue: str, request: Amounts) -> str:
    """Returns the lowest queue, from this one up, whose own quota suffices: a waiting gang has its claim there.

    A gang has no right to more than its queue's own quota, so it does not keep that quota from smaller gangs; but no
    other gang may borrow before it does.
    """
    path = tree.path.get(queue, (queue,))
    if len(path) == 1:
        return path[0]
    wanted = list(_limited_request(tree, queue, request))
    enough = (name for name in path if all(requested <= tree.quota[name].get(r, 0) for r, requested in wanted))
    return next(enough, path[-1])


def increase_along(usage: QueueUsage, path: Sequence[str], resource: str, amount: int) -> int:
    """Returns the increase in use of the quota of the last queue of `path` if the first, lowest one takes `amount`.

    A queue that keeps a part back draws on its parent only with what goes beyond that part.
    """
    if usage.tree.has_unlent_quota:
        for name in path[:-1]:
            kept = usage.tree.unlent[name].get(resource, 0)
            used = usage.charged(name).get(resource, 0)
            amount = max(used + amount - kept, 0) - max(used - kept, 0)
    return amount


def quota_verdict(usage: QueueUsage, queue: str, request: Amounts, firm: QueueUsage | None = None) -> Verdict | None:
    """Returns why quota blocks a gang of the queue, or None if it does not.

    `firm`: for a gang that is not preemptible, the usage of such gangs alone.
    """
    tree = usage.tree
    if queue in tree.faults:
        return Verdict(Reason.MISCONFIGURED, f"{tree.faults[queue].message}; nothing of {queue} can start")
    if resource := exceeds_maximum(tree, queue, request):
        most = maximum_quota(tree, queue, resource) or 0
        requested = _amount(resource, charge(request, resource))
        text = f"asks for {requested}, queue {queue} may hold {format_amount(resource, most)}"
        if most > tree.quota[queue].get(resource, 0):
            text += ", all that it could borrow included"
        return resource_verdict(Reason.EXCEEDS_MAX_QUOTA, text, resource, charge(request, resource))
    if firm is not None and (verdict := _own_quota_verdict(QueueUsage(tree, {}, {}), queue, request)):
        return replace(verdict, reason=Reason.EXCEEDS_MAX_QUOTA)
    if resource := exceeds_available(usage, queue, request):
        wanted = charge(request, resource)
        text = f"needs {_amount(resource, wanted)}: {describe_binding_limit(usage, queue, resource)}"
        return resource_verdict(
            Reason.WAITING_FOR_QUOTA, text, resource, wanted, max(available_quota(usage, queue, resource) or 0, 0)
        )
    return None if firm is None else _own_quota_verdict(firm, queue, request)


def _own_quota_verdict(firm: QueueUsage, queue: str, request: Amounts) -> Verdict | None:
    """Returns why a gang that is not preemptible does not fit into the queue's own quota, or None if it does."""
    resource, level = exceeds_own_quota(firm, queue, request)
    if not resource:
        return None
    wanted, held = charge(request, resource), firm.charged(level).get(resource, 0)
    quota = firm.tree.quota[level].get(resource, 0)
    has = f"queue {level} has {_amount(resource, quota)} of its own"
    has += f", of which such jobs hold {format_amount(resource, held)}" if held else ""
    text = f"needs {_amount(resource, wanted)}: it is not preemptible, so it may not borrow, and {has}"
    return resource_verdict(Reason.WAITING_FOR_QUOTA, text, resource, wanted, max(quota - held, 0))


def describe_binding_limit(usage: QueueUsage, queue: str, resource: str) -> str:
    """Describes the limit up the tree that leaves the queue too little of a resource."""
    tree, path = usage.tree, usage.tree.path[queue]
    held, quota = usage.charged(queue).get(resource, 0), tree.quota[queue].get(resource, 0)
    if len(path) == 1:
        return (
            f"queue {queue} holds {format_amount(resource, held)} of the {format_amount(resource, quota)} it may hold"
        )
    name = _limiting_queue(usage, queue, resource)
    if name in tree.borrowing and resource in tree.borrowing[name]:
        drawn, has = usage.charged(name).get(resource, 0), tree.quota[name].get(resource, 0)
        most, over = tree.borrowing[name][resource], drawn > has
        lent = f"may borrow {format_amount(resource, most)}{'' if over else ' more'}" if most else "may not borrow"
        return f"queue {name} {_describe_holding(resource, drawn, has)}{',' * over} and {lent}"
    total = tree.quota[name].get(resource, 0)
    own = _describe_holding(resource, held, quota) if quota else f"has no {resource} of its own"
    left = total - usage.charged(name).get(resource, 0)
    rest = (
        f"{format_amount(resource, left)} of its {format_amount(resource, total)} left"
        if left > 0
        else f"lent all {format_amount(resource, total)}"
    )
    return f"queue {queue} {own}; its cohort {name} has {rest}"


def _limiting_queue(usage: QueueUsage, queue: str, resource: str) -> str:
    """Returns the queue, from the root down, whose limit is the last that reduces the available amount."""
    tree = usage.tree
    *below, root = tree.path[queue]
    found, left = root, tree.quota[root].get(resource, 0) - usage.charged(root).get(resource, 0)
    for name in reversed(below):
        if (most := _borrowing_left(usage, name, resource)) is not None and most < left:
            found = name
        left = _available_through(usage, name, resource, left)
    return found


def _available_through(usage: QueueUsage, name: str, resource: str, left: int) -> int:
    """Returns what a queue may take if `left` is available to its parent."""
    most = _borrowing_left(usage, name, resource)
    if most is not None and most < left:
        left = most
    kept = usage.tree.unlent[name].get(resource, 0)
    return left + max(kept - usage.charged(name).get(resource, 0), 0) if kept else left


def _borrowing_left(usage: QueueUsage, name: str, resource: str) -> int | None:
    """Returns what the queue's own limits let it take through its parent; None: no such limit."""
    limit = usage.tree.borrowing[name].get(resource)
    if limit is None:
        return None
    has, kept = usage.tree.quota[name].get(resource, 0), usage.tree.unlent[name].get(resource, 0)
    return has - kept + limit - max(usage.charged(name).get(resource, 0) - kept, 0)


def _describe_holding(resource: str, held: int, quota: int) -> str:
    if held > quota:
        borrowed = format_amount(resource, held - quota)
        return f"holds {format_amount(resource, held)} {resource}, {borrowed} of them borrowed"
    return f"holds {format_amount(resource, held)} of its {format_amount(resource, quota)} {resource}"


def _fits_own_quota(reserved_usage: QueueUsage, queue: str, resource: str, amount: int) -> bool:
    """Tells whether some queue up the tree has room for it beyond reserved usage, without borrowing."""
    tree = reserved_usage.tree
    path = tree.path[queue]
    for place, name in enumerate(path):
        more = increase_along(reserved_usage, path[: place + 1], resource, amount)
        if reserved_usage.charged(name).get(resource, 0) + more <= tree.quota[name].get(resource, 0):
            return True
        most = _borrowing_left(reserved_usage, name, resource)
        if most is not None and more > most:
            return False
    return False


def _limited_request(tree: Tree, queue: str, request: Amounts) -> Iterator[tuple[str, int]]:
    """Yields the limited resources of a request and their amounts, by name."""
    for name in sorted(tree.limited_resources.get(queue, _NO_LIMIT)):
        if (requested := charge(request, name)) > 0:
            yield name, requested


def resource_verdict(
    reason: Reason, text: str, resource: str, wanted: int, free: int = 0, limit: Limit = Limit.QUEUE
) -> Verdict:
    """Returns a verdict with its numbers in the resource's own unit: whole GPUs for requests of whole GPUs."""
    if resource == GPU and wanted % 1000 == 0:
        wanted, free = wanted // 1000, free // 1000
    elif resource == GPU:
        resource = GPU_MILLI
    return Verdict(reason, text, resource, wanted, free=free, usable=free, limit=limit)


def format_amount(resource: str, amount: int) -> str:
    """Formats an amount in the units of `queue_tree.charge`."""
    if resource == GPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount / 1000:g}"
    return format_readable(resource, amount)


def _amount(resource: str, amount: int) -> str:
    return f"{format_amount(resource, amount)} {resource}"
