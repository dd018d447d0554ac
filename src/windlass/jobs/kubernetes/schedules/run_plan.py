"""Plans what follows for one CronTrainingJob: the run to create, runs to cancel or delete, and the status to write.

The state with a run that starts is written before the run is created. An operator that is killed in between leaves the
due time in the state, and the next one creates the run under the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from windlass.jobs.kubernetes.kinds import trainingjob
from windlass.jobs.kubernetes.labels import SCHEDULED_AT
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.schedules.cron_training_job import CronTrainingJob, is_run_of, run_name
from windlass.jobs.kubernetes.schedules.schedule_state import FIELD, StoredSchedule, new_state, state_text, times_of
from windlass.jobs.kubernetes.status.conditions import SUCCEEDED, conditions_of, end_of
from windlass.jobs.kubernetes.status.status_times import milliseconds, rfc3339
from windlass.jobs.schedules.cron_times import format_time
from windlass.jobs.schedules.due_runs import decide, next_due, note, suspend
from windlass.jobs.schedules.run_history import EndedRun, select_surplus
from windlass.jobs.schedules.schedule import NoteKind, ScheduleStatus


@dataclass(frozen=True, slots=True)
class Run:
    """A TrainingJob of a schedule. Times in ms."""

    name: str
    uid: str
    created: int
    due: int | None = None
    """None for a run that a user started."""
    end: str = ""
    """Succeeded or Failed; "" while it has not ended."""
    ended_at: int | None = None


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Consequences at one time. `stored` is written before a run is created."""

    stored: StoredSchedule
    start: int | None = None
    """Due time of the run to create."""
    cancelled: tuple[Run, ...] = ()
    removed: tuple[Run, ...] = ()
    next: int | None = None
    """Time of the next decision that time alone makes necessary."""


def read_runs(uid: str, manifests: Iterable[Manifest]) -> list[Run]:
    """The runs of the schedule with this uid, oldest first. Other objects with its label are left out."""
    runs = [_run(each) for each in manifests if is_run_of(each, uid)]
    return sorted(runs, key=lambda run: (run.created, run.name))


def plan_runs(cron: CronTrainingJob, stored: StoredSchedule | None, runs: Sequence[Run], now: int) -> RunPlan:
    """The plan at `now`. `stored`: None at the first time."""
    # 1. the state: another expression decides nothing about the past, and a run that exists has started
    stored = _current(cron, stored, runs, now)
    # 2. a run that was decided comes first, unless it is suspended or late
    if stored.starting is not None:
        stored = _dropped(cron, stored, now)
        if stored.starting is not None:
            return RunPlan(stored, stored.starting)
    # 3. decide about the times that have passed
    active = tuple(run for run in runs if not run.end)
    status = _switched(cron, stored.status, now, is_active=bool(active))
    decision = decide(cron.schedule, status, is_active=bool(active), now=now)
    status = decision.status
    if decision.start is not None:
        text = f"{run_name(cron.name, decision.start)} for {format_time(decision.start, cron.schedule.time_zone)}"
        status = note(status, now, NoteKind.STARTED, text)
    # 4. ended runs beyond the limits of the history
    ended = [EndedRun(run.name, order, run.end == SUCCEEDED) for order, run in enumerate(runs) if run.end]
    surplus = set(select_surplus(cron.schedule, ended))
    return RunPlan(
        replace(stored, status=status, starting=decision.start),
        decision.start,
        active if decision.stops_active else (),
        tuple(run for run in runs if run.name in surplus),
        None if cron.suspended else next_due(cron.schedule, status),
    )


def refused(cron: CronTrainingJob, stored: StoredSchedule, message: str, now: int) -> StoredSchedule:
    """The state after the API server has refused the run that starts."""
    time = format_time(stored.starting or now, cron.schedule.time_zone)
    return replace(stored, status=note(stored.status, now, NoteKind.REFUSED, f"{time}: {message}"), starting=None)


def status_fields(
    cron: CronTrainingJob, stored: StoredSchedule, runs: Sequence[Run], before: Manifest
) -> dict[str, object]:
    """The status of a schedule without its conditions, as a merge patch. `before`: its status until now."""
    last, successes = stored.status.last_run, [run.ended_at for run in runs if run.end == SUCCEEDED and run.ended_at]
    fields: dict[str, object] = {
        "active": [_reference(cron, run) for run in runs if not run.end],
        FIELD: {"state": state_text(stored)},
    }
    if last is not None:
        fields["lastScheduleTime"] = rfc3339(last)
    if successes:
        latest = max(*successes, milliseconds(before.get("lastSuccessfulTime")) or 0)
        fields["lastSuccessfulTime"] = rfc3339(latest)
    return fields


def _run(manifest: Manifest) -> Run:
    about = manifest["metadata"]
    status = manifest.get("status")
    ended = milliseconds(status.get("completionTime")) if isinstance(status, dict) else None
    return Run(
        str(about["name"]),
        str(about["uid"]),
        milliseconds(about.get("creationTimestamp")) or 0,
        milliseconds((about.get("annotations") or {}).get(SCHEDULED_AT)),
        end_of(conditions_of(manifest)),
        ended,
    )


def _current(cron: CronTrainingJob, stored: StoredSchedule | None, runs: Sequence[Run], now: int) -> StoredSchedule:
    if stored is None:
        return new_state(cron.schedule, cron.created)
    if stored.times != times_of(cron.schedule):
        status = replace(stored.status, considered=now, waiting=None)
        stored = replace(stored, status=status, times=times_of(cron.schedule))
    if stored.starting is not None and run_name(cron.name, stored.starting) in {run.name for run in runs}:
        stored = replace(stored, starting=None)
    return stored


def _dropped(cron: CronTrainingJob, stored: StoredSchedule, now: int) -> StoredSchedule:
    """Drops the run that starts if its schedule is suspended, or its starting deadline has passed."""
    due, deadline = stored.starting or 0, cron.schedule.starting_deadline
    time, status = format_time(due, cron.schedule.time_zone), stored.status
    if cron.suspended:
        text = f"{time}: the schedule was suspended"
        status = note(replace(status, skipped=status.skipped + 1), now, NoteKind.SKIPPED, text)
    elif deadline is not None and now - due > deadline:
        text = f"{time} could not start within the starting deadline"
        status = note(replace(status, missed=status.missed + 1), now, NoteKind.MISSED, text)
    else:
        return stored
    return replace(stored, status=status, starting=None)


def _switched(cron: CronTrainingJob, status: ScheduleStatus, now: int, *, is_active: bool) -> ScheduleStatus:
    """Applies `spec.suspend`: times of a suspension that were not decided yet pass before its end."""
    if cron.suspended and not status.suspended:
        return suspend(cron.schedule, status, is_active=is_active, now=now)
    if status.suspended and not cron.suspended:
        return replace(decide(cron.schedule, status, is_active=is_active, now=now).status, suspended=False)
    return status


def _reference(cron: CronTrainingJob, run: Run) -> dict[str, str]:
    about = {"apiVersion": trainingjob.API_VERSION, "kind": trainingjob.KIND, "namespace": cron.namespace}
    return {**about, "name": run.name, "uid": run.uid}
