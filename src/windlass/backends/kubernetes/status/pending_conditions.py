"""Why pods wait, in the condition of theirs that autoscalers and people look at: PodScheduled.

Source: k8s.io/kubernetes v1.36, pkg/scheduler/schedule_one.go (handleSchedulingFailure): False, Unschedulable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.coalescing_writer import CoalescingWriter
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.objects import Condition, Pod
from windlass.backends.kubernetes.client.resources import PODS

_DELAY, _EVERY = 1.0, 10.0
"""Seconds. A gang that starts at once is told nothing; one that waits is not told of every turn of the scheduler."""
_TYPE, _REASON = "PodScheduled", "Unschedulable"
_ENDED = ("Succeeded", "Failed")


class PendingConditions:
    """What was said last of each gang, whoever made it; written in the background into its pods."""

    def __init__(self, connection: Connection, on_trouble: Callable[[str], None]) -> None:
        self._connection = connection
        self._said: dict[str, tuple[str, Callable[[], Iterable[Pod]]]] = {}
        self._scribe: CoalescingWriter[str] = CoalescingWriter(self._write, on_trouble, delay=_DELAY, every=_EVERY)

    def say(self, job_id: str, sentence: str, pods: Callable[[], Iterable[Pod]]) -> None:
        """Why it waits. `pods` are looked up when it is written; those on nodes are left alone."""
        known = self._said.get(job_id)
        self._said[job_id] = sentence, pods
        if known is None or known[0] != sentence:
            self._scribe.mark(job_id)

    def forget(self, job_id: str) -> None:
        """It waits no more."""
        self._said.pop(job_id, None)
        self._scribe.forget(job_id)

    async def close(self) -> None:
        """Leave the rest unsaid."""
        await self._scribe.close()

    async def _write(self, job_id: str) -> None:
        if (said := self._said.get(job_id)) is None:
            return
        sentence, pods = said
        untold = [pod for pod in pods() if _waits(pod) and not _is_told(pod, sentence)]
        # one after the other: the scribe counts gangs
        for pod in untold:
            await self._tell(pod, sentence)
            await asyncio.sleep(0)

    async def _tell(self, pod: Pod, sentence: str) -> None:
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


def _waits(pod: Pod) -> bool:
    gone = pod.metadata.deletion_timestamp or pod.status.phase in _ENDED
    return not (gone or pod.spec.node_name or pod.spec.scheduling_gates)


def _is_told(pod: Pod, sentence: str) -> bool:
    before = _condition(pod)
    return before is not None and (before.status, before.reason, before.message) == ("False", _REASON, sentence)


def _condition(pod: Pod) -> Condition | None:
    return next((each for each in pod.status.conditions if each.type == _TYPE), None)
