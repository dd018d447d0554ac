"""Refuses invalid objects: writes the fault into a condition, once for each version of the object."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.coalescing_writer import CoalescingWriter
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.object_reference import ObjectReference
from windlass.backends.kubernetes.gangs.gang import WAITING
from windlass.backends.kubernetes.gangs.stored_state import STATE
from windlass.backends.kubernetes.status.job_announcer import JobAnnouncer
from windlass.backends.kubernetes.status.redaction import MessageRedaction
from windlass.jobs.kubernetes.kinds.trainingjob import KIND
from windlass.jobs.kubernetes.status.announcements import created_condition, has_condition_created
from windlass.jobs.kubernetes.status.conditions import (
    ACCEPTED,
    CREATED,
    FAILED,
    Condition,
    Conditions,
    conditions_of,
    is_true,
    with_current_last,
)
from windlass.jobs.kubernetes.status.diagnosis_condition import DIAGNOSED
from windlass.jobs.kubernetes.status.status_times import merge_conditions, rfc3339

INVALID = "Invalid"
DENIED = "Denied"
"""Reason for a job that may not use the queue or the priority that it asks for."""
_DELAY_S, _INTERVAL_S = 0.0, 5.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """Fault of an object, to be written into its conditions.

    `reason`: INVALID, or `gang.WAITING` for something else in the cluster; without a message the object is accepted.
    """

    reference: ObjectReference
    manifest: Mapping[str, Any]
    message: str
    reason: str = INVALID
    state: str = ""
    """The state to write into its status, for a job that was never accepted."""
    stands: Callable[[], bool] = lambda: True
    """Whether the refusal still holds when it is written."""
    end: str = ""
    """Reason of a condition `Failed`, for a job that cannot run as things are; "" without such a condition."""
    is_job: bool = False
    """Whether the object is a job of ours: it has the condition `Created` as well, and Events."""
    diagnosis: Condition | None = None
    """The condition with the verdict on what the job waits for."""


class Refusals:
    """Background writer of refusals, by uid of their object.

    `settling`: milliseconds for which a job waits for an object before that is written. Objects that are created
    together are seen in any order, as each kind has a watch of its own.
    """

    def __init__(
        self,
        connection: Connection,
        redaction: MessageRedaction,
        announcer: JobAnnouncer,
        now: Callable[[], int],
        on_trouble: Callable[[str], None],
        settling: int,
    ) -> None:
        self._connection, self._redaction, self._announcer, self._now = connection, redaction, announcer, now
        self._refused: dict[str, Refusal] = {}
        self._under_way: dict[str, asyncio.Event] = {}
        self._writer: CoalescingWriter[str] = CoalescingWriter(
            self._write, on_trouble, delay=_DELAY_S, every=_INTERVAL_S
        )
        self._waits: CoalescingWriter[str] = CoalescingWriter(
            self._write, on_trouble, delay=settling / 1000, every=_INTERVAL_S
        )

    def refuse(self, refusal: Refusal) -> None:
        """Queues a refusal for its object."""
        self._refused[refusal.reference.uid] = refusal
        (self._waits if refusal.reason == WAITING else self._writer).mark(refusal.reference.uid)

    async def close(self) -> None:
        """Stops; pending writes are dropped."""
        await self._writer.close()
        await self._waits.close()

    async def _write(self, uid: str) -> None:
        """Writes the latest refusal of an object, after a write of an earlier one by the other writer."""
        while (before := self._under_way.get(uid)) is not None:
            await before.wait()
        refusal = self._refused.get(uid)
        if refusal is None:
            return
        ended = self._under_way[uid] = asyncio.Event()
        try:
            if refusal.stands():
                await self._say(refusal)
            if self._refused.get(uid) is refusal:
                del self._refused[uid]
        finally:
            del self._under_way[uid]
            ended.set()

    async def _say(self, refusal: Refusal) -> None:
        before, reference = conditions_of(dict(refusal.manifest)), refusal.reference
        made = self._conditions(refusal)
        kept = [each for each in before if each["type"] != DIAGNOSED or not _waits_without_verdict(refusal)]
        conditions = merge_conditions(kept, made, rfc3339(self._now()), updates=True)
        if reference.resource.kind == KIND:
            conditions.sort(key=lambda each: each["type"] != CREATED)
        else:
            conditions = with_current_last(conditions)
        status = {"conditions": conditions, **({STATE: refusal.state} if refusal.state else {})}
        if status.items() <= (refusal.manifest.get("status") or {}).items():
            return
        body = {"metadata": {"uid": reference.uid}, "status": status}
        try:
            await self._connection.patch(
                reference.resource, reference.namespace, reference.name, body, subresource="status"
            )
        except ApiError as error:
            if not (error.is_missing or error.is_conflict):
                raise
            return
        if refusal.is_job:
            if refusal.diagnosis is not None and not _has_message(before, refusal.diagnosis):
                self._announcer.announce_wait_verdict(reference, refusal.diagnosis)
                return
            is_new = not is_true(before, CREATED)
            self._announcer.announce_refusal(
                reference, refusal.message, is_new=is_new, is_invalid=refusal.reason == INVALID
            )

    def _conditions(self, refusal: Refusal) -> list[Condition]:
        """Returns the conditions that tell a refusal."""
        reference = refusal.reference
        message = self._redaction.message(refusal.message, reference.namespace)
        condition = {"type": ACCEPTED, "status": "False", "reason": refusal.reason, "message": message}
        if not refusal.message:
            condition = {"type": ACCEPTED, "status": "True", "reason": ACCEPTED, "message": "is used by the scheduler"}
        made = [condition]
        if refusal.end:
            made.append({"type": FAILED, "status": "True", "reason": refusal.end, "message": message})
        if refusal.diagnosis is not None:
            made.append(refusal.diagnosis)
        if refusal.is_job and has_condition_created(reference.resource.api_version):
            made.append(created_condition(reference.resource.kind, reference.name))
        return made


def _waits_without_verdict(refusal: Refusal) -> bool:
    """Whether a job that was never accepted waits for what has no verdict."""
    return refusal.is_job and refusal.reason == WAITING and refusal.diagnosis is None


def _has_message(conditions: Conditions, wanted: Condition) -> bool:
    return any((each["type"], each.get("message")) == (wanted["type"], wanted["message"]) for each in conditions)
