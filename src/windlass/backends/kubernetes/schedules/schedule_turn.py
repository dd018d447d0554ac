"""One turn of one CronTrainingJob: reads it and its runs, writes its status, creates, cancels and deletes runs.

Everything is read from the API server and the status is written against the version that was read. A turn may
therefore end at any point, and two operators cannot both decide the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from windlass.backends.kubernetes.client.api_errors import ApiError, Outcome
from windlass.backends.kubernetes.client.connection import Connection, find_object
from windlass.backends.kubernetes.client.object_reference import ObjectReference, job_id, reference_to
from windlass.backends.kubernetes.client.resources import named
from windlass.backends.kubernetes.cluster.job_resolution import NamespaceLookups
from windlass.backends.kubernetes.schedules.schedule_events import (
    created_event,
    deleted_event,
    events_of_notes,
    replaced_event,
    unaccepted_event,
)
from windlass.backends.kubernetes.status.event_correlation import EventRecord
from windlass.jobs.kubernetes.kinds import trainingjob
from windlass.jobs.kubernetes.labels import SCHEDULE, USER
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestError
from windlass.jobs.kubernetes.schedules import cron_training_job
from windlass.jobs.kubernetes.schedules.cron_training_job import CronTrainingJob, is_run_of, run_name, run_object
from windlass.jobs.kubernetes.schedules.run_plan import Run, plan_runs, read_runs, refused, status_fields
from windlass.jobs.kubernetes.schedules.schedule_state import MAX_MESSAGE, StoredSchedule, new_state, read_state
from windlass.jobs.kubernetes.status.conditions import ACCEPTED, conditions_of
from windlass.jobs.kubernetes.status.status_times import merge_conditions, rfc3339

SCHEDULES = named(cron_training_job.API_VERSION, cron_training_job.PLURAL, cron_training_job.KIND)
RUNS = named(trainingjob.API_VERSION, trainingjob.PLURAL, trainingjob.KIND)
RUN_CREATED = "RunCreated"
"""Condition: whether the API server has taken the last run."""
_UNMANAGED_RETRY_MS = 30_000
"""Milliseconds after which a schedule in a namespace that is not managed is looked at again."""


@dataclass(frozen=True, slots=True)
class TurnContext:
    """Parts that turns need.

    `around`: the view of a namespace; `cancel`: ends the job of an id, by a user; `record`: records an Event of
    Kubernetes.
    """

    connection: Connection
    now: Callable[[], int]
    around: Callable[[str], NamespaceLookups]
    cancel: Callable[[str, str], None]
    record: Callable[[EventRecord], None]


async def take_turn(context: TurnContext, namespace: str, name: str) -> int | None:
    """Carries out what is due of one schedule. Returns the time of the next turn. Raises BackendError."""
    # 1. read the schedule; what cannot be carried out gets a condition
    manifest = await find_object(context.connection, SCHEDULES, namespace, name)
    if manifest is None or manifest["metadata"].get("deletionTimestamp"):
        return None
    turn = _Turn(context, manifest)
    if fault := context.around(namespace).unmanaged:
        await turn.refuse("NamespaceNotManaged", fault)
        return context.now() + _UNMANAGED_RETRY_MS
    try:
        cron = cron_training_job.read(manifest)
    except ManifestError as error:
        await turn.refuse("InvalidSpec", str(error))
        return None
    # 2. plan by its state and its runs
    runs = await turn.runs(cron)
    now = context.now()
    before = _stored(cron, manifest, now)
    plan = plan_runs(cron, before, runs, now)
    # 3. the decision is durable before the run exists
    await turn.write(status_fields(cron, plan.stored, runs, turn.status), _condition(ACCEPTED))
    news = list(events_of_notes(turn.about, before.status.notes if before else (), plan.stored.status.notes))
    turn.record(*news)
    if plan.start is not None:
        await _start(turn, cron, plan.stored, plan.start, runs)
    # 4. end the run that is replaced, and delete what the history does not keep
    for run in plan.cancelled:
        if news:  # later turns repeat the request until the run has ended
            turn.record(replaced_event(turn.about, run, now))
        context.cancel(job_id(RUNS.kind, namespace, run.name), f"schedule {cron.name}, for its next run")
    for run in plan.removed:
        await turn.delete(run)
        turn.record(deleted_event(turn.about, run, now))
    return plan.next


async def _start(turn: _Turn, cron: CronTrainingJob, stored: StoredSchedule, due: int, runs: Sequence[Run]) -> None:
    """Creates a run, and writes that it exists or why it cannot."""
    now = turn.context.now()
    try:
        made = await turn.create(cron, due)
    except ApiError as error:
        if error.is_denial or error.outcome is not Outcome.REFUSED:
            raise  # the next turn creates it
        message = error.message[:MAX_MESSAGE]
        after = refused(cron, stored, message, now)
        failed = _condition(RUN_CREATED, error.reason or "Refused", f"the run was refused: {message}")
        await turn.write(status_fields(cron, after, runs, turn.status), failed)
        turn.record(*events_of_notes(turn.about, stored.status.notes, after.status.notes))
        return
    turn.record(*(created_event(turn.about, run, now) for run in made))
    after = replace(stored, starting=None)
    await turn.write(status_fields(cron, after, [*runs, *made], turn.status), _condition(RUN_CREATED))


@dataclass(slots=True)
class _Turn:
    """The requests of one turn. `manifest`: the schedule as it was last read or written."""

    context: TurnContext
    manifest: Manifest

    @property
    def status(self) -> Manifest:
        """The status of the schedule; empty if it is malformed."""
        found = self.manifest.get("status")
        return found if isinstance(found, dict) else {}

    @property
    def about(self) -> ObjectReference:
        """Reference to the schedule."""
        return reference_to(SCHEDULES, self.manifest)

    def record(self, *events: EventRecord) -> None:
        """Records Events of the schedule."""
        for event in events:
            self.context.record(event)

    async def refuse(self, reason: str, message: str) -> None:
        """Writes why the schedule cannot be carried out, with an Event if that is new."""
        if await self.write({}, _condition(ACCEPTED, reason, message)):
            self.record(unaccepted_event(self.about, reason, message, self.context.now()))

    async def runs(self, cron: CronTrainingJob) -> list[Run]:
        """The runs of the schedule."""
        selector = f"{SCHEDULE}={cron.name}"
        return read_runs(cron.uid, await self.context.connection.list(RUNS, cron.namespace, selector=selector))

    async def create(self, cron: CronTrainingJob, due: int) -> list[Run]:
        """Creates the run of a time, unless it exists. Raises ApiError if the name is that of another job."""
        name = run_name(cron.name, due)
        about = self.manifest["metadata"]
        is_checked = self.context.around(cron.namespace).guard.user_of(about)
        user = (about.get("annotations") or {}).get(USER, "") if is_checked else ""
        try:
            made = await self.context.connection.create(RUNS, run_object(cron, name, due=due, user=user))
        except ApiError as error:
            if not error.is_exists:
                raise
            found = await find_object(self.context.connection, RUNS, cron.namespace, name)
            if found is None or not is_run_of(found, cron.uid):
                raise
            made = found
        return read_runs(cron.uid, [made])

    async def write(self, fields: dict[str, object], *changed: dict[str, str]) -> bool:
        """Writes the status if the object is still of the version that was read. Returns whether it has changed."""
        now = rfc3339(self.context.now())
        conditions = merge_conditions(conditions_of(self.manifest), changed, now)
        status = {**fields, "conditions": conditions}
        if all(self.status.get(name) == value for name, value in status.items()):
            return False
        about = self.manifest["metadata"]
        body: dict[str, Any] = {"metadata": {"resourceVersion": about["resourceVersion"]}, "status": status}
        where = (SCHEDULES, about["namespace"], about["name"])
        self.manifest = await self.context.connection.patch(*where, body, subresource="status")
        return True

    async def delete(self, run: Run) -> None:
        """Deletes a run; its pods and services follow."""
        namespace = self.manifest["metadata"]["namespace"]
        try:
            await self.context.connection.delete(RUNS, namespace, run.name, uid=run.uid, propagation="Background")
        except ApiError as error:
            if not (error.is_missing or error.is_conflict):
                raise


def _stored(cron: CronTrainingJob, manifest: Manifest, now: int) -> StoredSchedule | None:
    """The state in the object; a state that no operator writes is replaced by one of which nothing is due."""
    try:
        return read_state(manifest)
    except ValueError:
        return new_state(cron.schedule, now)


def _condition(kind: str, reason: str = "", message: str = "") -> dict[str, str]:
    """A condition that is true, or false with a reason."""
    status = "False" if reason else "True"
    return {"type": kind, "status": status, "reason": reason or kind, "message": message}
