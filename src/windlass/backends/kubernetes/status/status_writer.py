"""What a job's object says of it, in the words of its kind; written when it has changed, and not too often."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.priority_limiter import PriorityLimiter
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.stored_state import FIELD, STATE, TRAINING
from windlass.backends.kubernetes.status import state_writes
from windlass.backends.kubernetes.status.refusals import ACCEPTED
from windlass.backends.port import BackendError
from windlass.core.model.status import TERMINAL, Phase, Status, state_name
from windlass.jobs.kubernetes.status import conditions as told
from windlass.jobs.kubernetes.status import job_status
from windlass.jobs.kubernetes.status.job_status import Counts

_OFTEN = 2.0
"""Seconds between two writes of one job's status that the controller does not wait for."""
_AT_ONCE = 16
_COUNTED = ("replicaStatuses", "jobsStatus")
"""What of a status tells numbers of pods."""


def status_of(gang: Gang, life: Status, now: int) -> Mapping[str, Any]:
    """All of the status but what the controller keeps there."""
    if gang.judged and gang.notes.judged and not _core_knows_better(gang, life):
        said: Mapping[str, Any] = gang.notes.judged
    else:
        before = gang.parsed.manifest.get("status") or {}
        counts, waits = _counts(gang), gang.notes.trouble or gang.notes.waits
        said = job_status.status_of(gang.parsed, life, counts, before, now, waits=waits, reason=gang.notes.waits_reason)
        if life.phase in TERMINAL and gang.run is None:  # its pods were counted when it ended, and may have gone since
            said = {**said, **{name: before[name] for name in _COUNTED if name in before}}
    conditions = [each for each in said.get("conditions") or () if each["type"] != ACCEPTED]
    says: dict[str, Any] = {**said, "conditions": conditions, STATE: state_name(life)}
    if gang.notes.training:
        says[TRAINING] = gang.notes.training
    return {name: value for name, value in says.items() if name != FIELD}


def _core_knows_better(gang: Gang, life: Status) -> bool:
    """A judgement is of pods: it says nothing of a gang that waits, is suspended, or was ended by somebody."""
    ended = told.ended(gang.notes.judged.get("conditions") or ())
    return life.phase not in (Phase.ADMITTED, Phase.RUNNING) and not (life.phase in TERMINAL and ended)


def _counts(gang: Gang) -> Mapping[str, Counts]:
    """Replicas of a run by role and phase."""
    if gang.run is None:
        return {}
    found = {role: gang.run.pods.phases(role) for role in gang.run.sizes}
    return {
        role: Counts(each.get("Running", 0), each.get("Succeeded", 0), each.get("Failed", 0))
        for role, each in found.items()
        if any(each.values())
    }


class StatusWriter:
    """Writes in the background the parts of a status that no commit waits for."""

    def __init__(self, connection: Connection, urgent: PriorityLimiter, now: Callable[[], int]) -> None:
        self._connection, self._urgent, self._now = connection, urgent, now
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._under_way: dict[str, asyncio.Task[None]] = {}

    def look(self, gang: Gang) -> None:
        """Write the gang's status if it says something new, now or soon. `gang.notes.stale`: it may."""
        if not gang.notes.stale or gang.stored is None or gang.version.gone or gang.home.uid in self._under_way:
            return
        gang.notes.stale = False
        if not self._is_news(gang):
            return
        task = asyncio.get_running_loop().create_task(self._write(gang))
        self._under_way[gang.home.uid] = task
        task.add_done_callback(lambda _: self._under_way.pop(gang.home.uid, None))

    async def close(self) -> None:
        """Leave what was not written yet."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_news(self, gang: Gang) -> bool:
        before = gang.parsed.manifest.get("status") or {}
        return any(before.get(name) != value for name, value in status_of(gang, gang.status, self._now()).items())

    async def _write(self, gang: Gang) -> None:
        while not gang.version.gone and self._is_news(gang):
            await self._urgent.quiet(_OFTEN)
            try:
                async with self._at_once:
                    await state_writes.say(self._connection, gang, status_of(gang, gang.status, self._now()))
            except BackendError:
                pass  # it is tried again, and whoever asks in between is told by the commit
            await asyncio.sleep(_OFTEN)
            gang.notes.stale = False
