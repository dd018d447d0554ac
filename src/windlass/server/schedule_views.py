"""JSON of schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import msgspec

from windlass.backends.local.schedule_records import ScheduleRecord
from windlass.jobs.schedules.due_runs import next_due
from windlass.jobs.secret_values import hide_secrets
from windlass.server.job_lines import Json


def schedule_line(record: ScheduleRecord, active: Sequence[str]) -> Json:
    """A schedule with its state and history. `active`: ids of its runs that have not ended. Times in ms."""
    job, status = record.submission.job, record.status
    return {
        "name": record.name,
        "user": job.user,
        "queue": job.queue,
        **asdict(record.schedule),
        "suspended": status.suspended,
        "next": None if status.suspended else next_due(record.schedule, status),
        "waiting": status.waiting,
        "last_run": status.last_run,
        "active": list(active),
        "missed": status.missed,
        "skipped": status.skipped,
        "notes": [asdict(each) for each in status.notes],
        "created_at": record.created_at,
        "spec": msgspec.to_builtins(hide_secrets(job)),
    }
