"""Shell completion of the names of jobs, reservations and nodes, and of those that `windlass explain` knows."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import typer

from windlass.backends.errors import BackendError
from windlass.cli.errors import UsageError
from windlass.cli.target import controller_client, job_source, state_folder
from windlass.jobs.errors import InputError
from windlass.server.errors import ApiError

_MAX_OFFERED = 200


def complete_job_names(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Returns job ids with their states, latest first, from the target of the typed options; [] after any error."""
    try:
        with contextlib.closing(job_source(*_typed_target(context))) as source:
            jobs = source.jobs(all="1", limit=_MAX_OFFERED)
    except (ApiError, BackendError, UsageError, InputError, OSError):
        return []
    return [(job["id"], job["phase"]) for job in jobs if job["id"].startswith(incomplete)]


def complete_reservation_names(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Returns the names of reservations with their states; [] after any error."""
    try:
        with contextlib.closing(controller_client(*_typed_target(context))) as client:
            reservations = client.reservations()
    except (ApiError, BackendError, UsageError, InputError, OSError):
        return []
    return [(each["name"], each["state"]) for each in reservations if each["name"].startswith(incomplete)]


def complete_explained_names(incomplete: str) -> list[str]:
    """Returns the names that `windlass explain` knows: fields, checks, rules and causes."""
    from windlass.cli.explained_names import explained_names  # noqa: PLC0415 - loads the tables

    return [name for name in explained_names() if name.startswith(incomplete)]


def complete_measured_nodes(context: typer.Context, incomplete: str) -> list[str]:
    """Returns the names of nodes with recorded telemetry on this machine; [] after any error."""
    from windlass.server.telemetry_records.queries import measured_nodes  # noqa: PLC0415 - other completions need no store
    from windlass.server.telemetry_records.recorder import STORE_NAME  # noqa: PLC0415

    _, _, state = _typed_target(context)
    try:
        names = measured_nodes(state_folder(state) / STORE_NAME)
    except ApiError:
        return []
    return [name for name in names if name.startswith(incomplete)][:_MAX_OFFERED]


def _typed_target(context: typer.Context) -> tuple[str, str, Path | None]:
    """Returns (--on, --namespace, --state) as typed so far, else from the environment."""
    state = context.params.get("state") or os.environ.get("WINDLASS_STATE")
    on = context.params.get("on") or os.environ.get("WINDLASS_ON") or ""
    return on, context.params.get("namespace") or "", Path(state) if state else None
