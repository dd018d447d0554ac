"""Stored origins of jobs: the client's environment, and the client that a job must not outlive."""

from __future__ import annotations

import json
from collections.abc import Mapping

from windlass.backends.local.state_reader import StateReader


def clients_of_living_jobs(records: StateReader) -> dict[str, str]:
    """Returns jobs that have not ended and must not outlive their client, with the client."""
    return dict(records.rows("SELECT id, owner FROM jobs WHERE owner IS NOT NULL AND finished_at IS NULL"))


def client_of(records: StateReader, job_id: str) -> str:
    """Returns the client that the job must not outlive; "" for none."""
    rows = records.rows("SELECT owner FROM jobs WHERE id = ? AND owner IS NOT NULL", (job_id,))
    return str(rows[0][0]) if rows else ""


def environment_of(records: StateReader, job_id: str) -> Mapping[str, str] | None:
    """Returns the environment of the client that submitted the job, if it was sent."""
    join = "SELECT text FROM environments JOIN jobs ON jobs.environment = environments.number WHERE jobs.id = ?"
    rows = records.rows(join, (job_id,))
    return dict(json.loads(rows[0][0])) if rows else None
