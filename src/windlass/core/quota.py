"""What a queue may hold: its nominal quota, a hard limit by resource."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.core.job import DEFAULT_QUEUE
from windlass.core.queue import Queue
from windlass.core.reasons import Reason, Verdict
from windlass.core.resources import format_quantity


def queue_named(queues: Mapping[str, Queue], name: str) -> Queue | None:
    """The queue, or None. The default queue is there, without a limit, even if nobody declared it."""
    return queues.get(name) or (Queue(DEFAULT_QUEUE) if name == DEFAULT_QUEUE else None)


def lacking(queue: Queue, used: Mapping[str, int], request: Mapping[str, int]) -> str:
    """The first resource, by name, of which `used` and `request` together are more than nominal; "" if none."""
    for name, limit in sorted(queue.nominal.items()):
        asked = request.get(name, 0)
        if asked > 0 and used.get(name, 0) + asked > limit:
            return name
    return ""


def verdict(queue: Queue, used: Mapping[str, int], request: Mapping[str, int]) -> Verdict | None:
    """Why the queue's quota keeps the gang out, or None if it does not."""
    if resource := lacking(queue, {}, request):
        text = f"asks for {_amount(resource, request[resource])}, queue {queue.name} may hold {_limit(queue, resource)}"
        return Verdict(Reason.EXCEEDS_MAX_QUOTA, text, resource, request[resource])
    resource = lacking(queue, used, request)
    if not resource:
        return None
    wanted, held = request[resource], used.get(resource, 0)
    text = (
        f"needs {_amount(resource, wanted)}: queue {queue.name} holds {format_quantity(resource, held)} "
        f"of the {_limit(queue, resource)} it may hold"
    )
    left = max(queue.nominal[resource] - held, 0)
    return Verdict(Reason.WAITING_FOR_QUOTA, text, resource, wanted, free=left, usable=left)


def _limit(queue: Queue, resource: str) -> str:
    return format_quantity(resource, queue.nominal[resource])


def _amount(resource: str, amount: int) -> str:
    return f"{format_quantity(resource, amount)} {resource}"
