"""A CronTrainingJob as a row of a table, with the fields of a daemon's schedule."""

from __future__ import annotations

from typing import Any

from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestError
from windlass.jobs.kubernetes.schedules.cron_fields import MAX_CRON
from windlass.jobs.kubernetes.schedules.cron_training_job import read
from windlass.jobs.kubernetes.schedules.schedule_state import StoredSchedule, new_state, read_state
from windlass.jobs.kubernetes.status.status_times import milliseconds
from windlass.jobs.schedules.due_runs import next_due
from windlass.jobs.schedules.schedule import Schedule

_MAX_LEAD_MS = 3_600_000
"""A state with a later time is not shown: another writer has put it there, or a wrong clock."""


def schedule_row(manifest: Manifest, now: int) -> dict[str, Any]:
    """The row of a schedule. One that cannot be carried out is suspended, and its only note says why."""
    about = manifest["metadata"]
    created = milliseconds(about.get("creationTimestamp")) or 0
    try:
        cron = read(manifest)
    except ManifestError as error:
        note = {"at": created, "kind": "Refused", "message": str(error)}
        schedule, suspended, notes = Schedule(_written_times(manifest)), True, [note]
        stored = new_state(schedule, created)
    else:
        schedule, suspended = cron.schedule, cron.suspended
        stored = _state(manifest, schedule, created, now)
        notes = [{"at": each.at, "kind": str(each.kind), "message": each.message} for each in stored.status.notes]
    return {
        "name": str(about["name"]),
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "policy": str(schedule.policy),
        "starting_deadline": schedule.starting_deadline,
        "kept_succeeded": schedule.kept_succeeded,
        "kept_failed": schedule.kept_failed,
        "suspended": suspended,
        "next": None if suspended else next_due(schedule, stored.status),
        "waiting": stored.status.waiting,
        "last_run": stored.status.last_run,
        "active": _active(manifest),
        "missed": stored.status.missed,
        "skipped": stored.status.skipped,
        "notes": notes,
        "created_at": created,
    }


def _written_times(manifest: Manifest) -> str:
    """The expression of a schedule that cannot be read, as far as one may be long."""
    spec = manifest.get("spec")
    return str(spec.get("schedule"))[:MAX_CRON] if isinstance(spec, dict) else ""


def _active(manifest: Manifest) -> list[str]:
    """Names of the runs in the status; none of a malformed one."""
    status = manifest.get("status")
    active = status.get("active") if isinstance(status, dict) else None
    listed = active if isinstance(active, list) else []
    return [str(each["name"]) for each in listed if isinstance(each, dict) and "name" in each]


def _state(manifest: Manifest, schedule: Schedule, created: int, now: int) -> StoredSchedule:
    """The state of a schedule; a new one before the operator has seen it, and in place of one that it never writes."""
    try:
        stored = read_state(manifest) or new_state(schedule, created)
    except ValueError:
        return new_state(schedule, now)
    status = stored.status
    times = (status.considered, status.waiting or 0, status.last_run or 0, *(each.at for each in status.notes))
    return stored if max(times) <= now + _MAX_LEAD_MS else new_state(schedule, now)
