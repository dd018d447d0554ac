"""What the shell offers when Tab is pressed after a verb that takes a job."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import typer

from windlass.backends.errors import BackendError
from windlass.cli.errors import UsageError
from windlass.cli.target import controller_client, record_source
from windlass.jobs.errors import JobError
from windlass.server.errors import ApiError

_OFFERED = 200


def complete_job_names(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Ids and their states, the latest first, from where the words typed so far look. Completion never complains."""
    try:
        with contextlib.closing(record_source(*_where(context))) as asked:
            jobs = asked.jobs(all="1", limit=_OFFERED)
    except (ApiError, BackendError, UsageError, JobError, OSError):
        return []
    return [(job["id"], job["phase"]) for job in jobs if job["id"].startswith(incomplete)]


def complete_reservation_names(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """What is reserved, and whether it has begun."""
    try:
        with contextlib.closing(controller_client(*_where(context))) as asked:
            kept = asked.reservations()
    except (ApiError, BackendError, UsageError, JobError, OSError):
        return []
    return [(each["name"], each["state"]) for each in kept if each["name"].startswith(incomplete)]


def _where(context: typer.Context) -> tuple[str, str, Path | None]:
    """What was typed of where to look, else what the environment says."""
    state = context.params.get("state") or os.environ.get("WINDLASS_STATE")
    on = context.params.get("on") or os.environ.get("WINDLASS_ON") or ""
    return on, context.params.get("namespace") or "", Path(state) if state else None
