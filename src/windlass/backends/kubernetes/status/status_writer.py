"""Writes the status of jobs in the terms of their kinds when it changes, at limited intervals."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.priority_limiter import PriorityLimiter
from windlass.backends.kubernetes.gangs import readable_spec
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.image_waits import IMAGES_PULLED, image_condition
from windlass.backends.kubernetes.gangs.run_pods import is_leaving
from windlass.backends.kubernetes.gangs.spec_condition import SPEC_APPLIED, spec_condition
from windlass.backends.kubernetes.gangs.stored_state import FIELD, PRIORITY, STATE, TRAINING
from windlass.backends.kubernetes.status import state_writes
from windlass.backends.kubernetes.status.failing_pods import failing_pods
from windlass.backends.kubernetes.status.member_waits import pods_without_image
from windlass.backends.kubernetes.status.notebook_status import WAITING, notebook_fields, waiting_condition
from windlass.backends.kubernetes.status.refusals import DENIED
from windlass.backends.port import BackendError
from windlass.core.model.status import TERMINAL, Phase, Status, Target, state_name
from windlass.jobs.kubernetes import train_runtimes
from windlass.jobs.kubernetes.job_patches import NOTEBOOK
from windlass.jobs.kubernetes.kinds.trainingjob import KIND
from windlass.jobs.kubernetes.pods.pod_assembly import JOB_ROLE
from windlass.jobs.kubernetes.status import job_status
from windlass.jobs.kubernetes.status.conditions import ACCEPTED, conditions_of, end_of, with_current_last
from windlass.jobs.kubernetes.status.diagnosis_condition import DIAGNOSED, diagnosis_condition
from windlass.jobs.kubernetes.status.member_conditions import Counts
from windlass.jobs.kubernetes.status.status_times import rfc3339, with_times

_INTERVAL_S = 2.0
"""Seconds between two writes of one job's status that no commit waits for."""
_LONGEST_PAUSE_S = 60.0
"""The interval doubles up to this with each failed write in a row."""
_AT_ONCE = 16
_CONDITIONS = (ACCEPTED, IMAGES_PULLED, SPEC_APPLIED, DIAGNOSED, WAITING)
"""Conditions beside those of the job's kind."""


def status_of(gang: Gang, life: Status, now: int) -> Mapping[str, Any]:
    """The status of a job without the controller's state."""
    before = gang.parsed.manifest.get("status") or {}
    waits, reason = gang.notes.creation_error or gang.notes.pending_message, gang.notes.pending_reason
    # the pods of an ended job were counted when it ended, and may be gone by now
    counts = None if life.phase in TERMINAL and gang.run is None else _counts(gang, life)
    failing = failing_pods(gang, life)
    status = job_status.status_of(gang.parsed, life, counts, before, now, waits=waits, reason=reason, failing=failing)
    listed = conditions_of({"status": before})
    conditions = [each for each in status.get("conditions") or () if each["type"] not in _CONDITIONS]
    if (waits_for_image := image_condition(pods_without_image(gang), listed)) and life.phase not in TERMINAL:
        conditions += with_times(listed, [waits_for_image], rfc3339(now), updates=True)
    of_notebook = notebook_fields(gang) if gang.parsed.kind == NOTEBOOK else {}
    beside = [spec_condition(gang, life), diagnosis_condition(life, gang.notes.wait_verdict), _denied(gang.fit.denial)]
    if of_notebook:
        beside.append(waiting_condition(gang, life, of_notebook))
    conditions += with_times(listed, [dict(each) for each in beside if each], rfc3339(now), updates=True)
    if gang.parsed.kind != KIND:
        conditions = with_current_last(conditions)
    shown: dict[str, Any] = {**status, "conditions": conditions, STATE: _shown_state(life, conditions), **of_notebook}
    if gang.parsed.kind == KIND:
        shown["queue"] = gang.job.queue
    if life.placement is not None:
        shown[PRIORITY] = gang.job.priority
    elif PRIORITY in before:
        shown[PRIORITY] = None  # removes it
    if gang.notes.training:
        shown[TRAINING] = gang.notes.training
    if (runtime := gang.parsed.runtime) is not None:
        shown[train_runtimes.FIELD] = runtime.text
    specs = {readable_spec.FIELD: gang.last_readable, readable_spec.STARTED_FIELD: gang.started_spec}
    shown |= {name: text or None for name, text in specs.items() if text or name in before}  # null removes it
    return {name: value for name, value in shown.items() if name != FIELD}


def _denied(message: str) -> dict[str, str] | None:
    """The condition of a job that its queue denies."""
    return {"type": ACCEPTED, "status": "False", "reason": DENIED, "message": message} if message else None


def _shown_state(life: Status, conditions: Sequence[dict[str, Any]]) -> str:
    """The state for tables: an end shows as soon as the conditions have it, while pods may be left to end."""
    return (life.phase not in TERMINAL and end_of(conditions)) or state_name(life)


def _counts(gang: Gang, life: Status) -> Mapping[str, Counts]:
    """Returns the replicas of a run by role and phase. A member that ended the job has failed, also without its pod.

    Pods of a run that is over count only for the end of the job: a suspended or queued job has none.
    """
    run = gang.run
    if run is None or (run.gone and life.phase not in TERMINAL):
        return {}
    found = {role: Counter(run.pods.phases(role)) for role in run.sizes}
    if run.alone:
        for number in run.pods.failing:
            if (pod := run.pods.get(number)) is not None and is_leaving(pod):
                found[run.slots[number].role].update({"Running": -1, "Failed": 1})
        failure = life.last_failure
        ended = life.phase is Phase.FAILED or life.target is Target.FAIL
        if ended and failure is not None and failure.member is not None and failure.reason == life.reason:
            found[run.slots[failure.member].role]["Failed"] += run.pods.get(failure.member) is None
    for pod in run.pods.extra if run.made_by_others else ():  # earlier pods of a launcher's Job
        if (role := pod.metadata.labels.get(JOB_ROLE, "")) in found and pod.status.phase == "Failed":
            found[role]["Failed"] += 1
    for number in run.made_by_others:
        failed = found[run.slots[number].role]
        failed["Failed"] = max(failed["Failed"], run.failed_launchers)
    return {
        role: Counts(each["Running"], each["Succeeded"], each["Failed"])
        for role, each in found.items()
        if any(each.values())
    }


class StatusWriter:
    """Background writer of the parts of a status that no commit waits for. `announce` is called after each write."""

    def __init__(
        self,
        connection: Connection,
        urgent: PriorityLimiter,
        now: Callable[[], int],
        announce: Callable[[Gang], None],
    ) -> None:
        self._connection, self._urgent, self._now, self._announce = connection, urgent, now, announce
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._under_way: dict[str, asyncio.Task[None]] = {}

    def write_if_changed(self, gang: Gang) -> None:
        """Writes the gang's status if it has changed, now or soon. `gang.notes.needs_write`: it may have changed."""
        if (
            not gang.notes.needs_write
            or gang.stored is None
            or gang.reference.uid in self._under_way
            or gang.is_as_left
            or not _is_writable(gang)
        ):
            return
        gang.notes.needs_write = False
        if not self._is_news(gang):
            return
        task = asyncio.get_running_loop().create_task(self._write(gang))
        self._under_way[gang.reference.uid] = task
        task.add_done_callback(lambda _: self._under_way.pop(gang.reference.uid, None))

    async def close(self) -> None:
        """Stops; pending writes are dropped."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_news(self, gang: Gang) -> bool:
        if gang.has_foreign_state or gang.has_unwritten_state:
            return True
        before = gang.parsed.manifest.get("status") or {}
        return any(before.get(name) != value for name, value in status_of(gang, gang.status, self._now()).items())

    async def _write(self, gang: Gang) -> None:
        pause = _INTERVAL_S
        while _is_writable(gang) and self._is_news(gang):
            await self._urgent.wait_until_idle(_INTERVAL_S)
            try:
                async with self._at_once:
                    await state_writes.write_status(
                        self._connection, gang, lambda: status_of(gang, gang.status, self._now())
                    )
                self._announce(gang)
                pause = _INTERVAL_S
            except BackendError:  # the next attempt or commit writes it
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            await asyncio.sleep(pause)
            gang.notes.needs_write = False


def _is_writable(gang: Gang) -> bool:
    """Tells whether the object exists, and took the controller's last state."""
    return not (gang.version.gone or gang.notes.not_written)
