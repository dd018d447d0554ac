"""Writes the pending reason of a gang into the condition PodScheduled of its pods, for autoscalers and users.

A pod is written when it has no such condition yet, when the reason changes, or when a count changes materially
(`changes_materially`). Pods that have a reason already are written at most `REWRITES_PER_S` times a second, all gangs
together: several thousand pending pods must not occupy the API server.

Source: k8s.io/kubernetes v1.36, pkg/scheduler/schedule_one.go (handleSchedulingFailure): False, Unschedulable.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import TypeAlias

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.coalescing_writer import CoalescingWriter
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.objects import Condition, Pod
from windlass.backends.kubernetes.client.priority_limiter import PriorityLimiter
from windlass.backends.kubernetes.client.resources import PODS
from windlass.jobs.kubernetes.bounded_integers import MAX_INT64, parse_integer

REWRITES_PER_S = 8.0
_DELAY_S, _INTERVAL_S = 1.0, 10.0
"""Seconds from a new reason to its first write, so that a gang that starts at once is not written; and between two
writes of one gang."""
_MATERIAL = 2
"""Factor by which a count changes materially."""
_QUIET_S = 3.0
"""Seconds that a write waits at most while gangs are being started."""
_NUMBER = re.compile(r"[0-9]+")
_TYPE, _REASON = "PodScheduled", "Unschedulable"

Pods: TypeAlias = Callable[[], Iterable[Pod]]


def changes_materially(before: str, after: str) -> bool:
    """Tells whether two sentences differ in more than small changes of their numbers.

    A number changes materially from or to zero, and by a factor of two; a difference in the words always counts.
    """
    return before != after and _differs_materially(before, after)


@lru_cache(maxsize=4_096)  # the pods of a gang show the same sentence, and so do those of gangs that are alike
def _differs_materially(before: str, after: str) -> bool:
    if _NUMBER.sub("", before) != _NUMBER.sub("", after):
        return True
    pairs = zip(map(_number, _NUMBER.findall(before)), map(_number, _NUMBER.findall(after)), strict=True)
    return any(max(pair) >= _MATERIAL * min(pair) for pair in pairs if pair[0] != pair[1])


def _number(digits: str) -> int:
    """Returns the number in a sentence, at most MAX_INT64: another writer's condition may hold any."""
    number = parse_integer(digits, 0, MAX_INT64)
    return MAX_INT64 if number is None else number


class PendingConditions:
    """Background writer of pending reasons: the latest of each gang, of our kinds or external, into its pods."""

    def __init__(
        self, connection: Connection, on_trouble: Callable[[str], None], limiter: PriorityLimiter | None = None
    ) -> None:
        self._connection, self._limiter = connection, limiter
        self._reasons: dict[str, tuple[str, Pods]] = {}
        self._first: CoalescingWriter[str] = CoalescingWriter(
            self._write_new, on_trouble, delay=_DELAY_S, every=_INTERVAL_S
        )
        self._again: CoalescingWriter[str] = CoalescingWriter(
            self._rewrite, on_trouble, delay=_DELAY_S, every=_INTERVAL_S, at_once=1
        )
        self._next_rewrite = 0.0
        """Time of the event loop before which no pod is written again."""

    def say(self, job_id: str, sentence: str, pods: Pods) -> None:
        """Notes why a gang is pending. `pods` is called when it is written; bound pods are left alone."""
        self._reasons[job_id] = sentence, pods
        pending = [pod for pod in pods() if _is_pending(pod)]
        if not pending or any(_message(pod) is None for pod in pending):
            self._first.mark(job_id)  # its pods may be created by then
        if any(_has_other_reason(pod, sentence) for pod in pending):
            self._again.mark(job_id)

    def forget(self, job_id: str) -> None:
        """Removes a gang that is no longer pending."""
        self._reasons.pop(job_id, None)
        self._first.forget(job_id)
        self._again.forget(job_id)

    async def close(self) -> None:
        """Stops; pending writes are dropped."""
        await self._first.close()
        await self._again.close()

    async def _write_new(self, job_id: str) -> None:
        """Writes the pods that have no reason yet, one after the other: the writer limits gangs, not pods."""
        sentence, pods = self._reasons.get(job_id, ("", tuple))
        for pod in [pod for pod in pods() if _is_pending(pod) and _message(pod) is None]:
            await self._patch(pod, sentence)
            await asyncio.sleep(0)

    async def _rewrite(self, job_id: str) -> None:
        """Writes the pods that show another reason, until the gang is forgotten."""
        _, pods = self._reasons.get(job_id, ("", tuple))
        for pod in list(pods()):
            if job_id not in self._reasons:
                return
            sentence, _ = self._reasons[job_id]
            if _is_pending(pod) and _has_other_reason(pod, sentence):
                await self._wait_for_turn()
                await self._patch(pod, sentence)

    async def _wait_for_turn(self) -> None:
        now = asyncio.get_running_loop().time()
        self._next_rewrite = max(self._next_rewrite, now) + 1 / REWRITES_PER_S
        await asyncio.sleep(self._next_rewrite - now)

    async def _patch(self, pod: Pod, sentence: str) -> None:
        if self._limiter is not None:
            await self._limiter.wait_until_idle(_QUIET_S)
        about = pod.metadata
        condition = {"type": _TYPE, "status": "False", "reason": _REASON, "message": sentence}
        before = _condition(pod)
        if before is None or before.status != "False":
            condition["lastTransitionTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {"metadata": {"uid": about.uid}, "status": {"conditions": [condition]}}
        try:
            await self._connection.patch(
                PODS, about.namespace, about.name, body, kind="strategic", subresource="status"
            )
        except ApiError as error:
            if not (error.is_missing or error.is_conflict):
                raise


def _is_pending(pod: Pod) -> bool:
    gone = pod.metadata.deletion_timestamp or pod.status.has_ended
    return not (gone or pod.spec.node_name or pod.spec.scheduling_gates)


def _has_other_reason(pod: Pod, sentence: str) -> bool:
    before = _message(pod)
    return before is not None and changes_materially(before, sentence)


def _message(pod: Pod) -> str | None:
    """Returns the reason that a pod shows; None if it shows none."""
    found = _condition(pod)
    return found.message if found is not None and (found.status, found.reason) == ("False", _REASON) else None


def _condition(pod: Pod) -> Condition | None:
    return next((each for each in pod.status.conditions if each.type == _TYPE), None)
