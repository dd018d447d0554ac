"""Waits for the verdicts on jobs that have just failed: their diagnosis takes a second or two."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

Json = dict[str, Any]

_LONGEST_WAIT_S = 30.0
"""Five times the wait that was measured on two cores with a load of 14."""
_POLL_S = 0.1


def with_verdicts(
    jobs: Mapping[str, Json], read: Callable[[str], Json], is_interrupted: Callable[[], bool]
) -> dict[str, Json]:
    """Returns the lines of ended jobs with their verdicts, as far as these come in time.

    `read` returns a job as it is now; `is_interrupted`: whether the user does not want to wait.
    """
    found, end = dict(jobs), time.monotonic() + _LONGEST_WAIT_S
    missing = [job_id for job_id, job in jobs.items() if job["phase"] == "Failed" and job["reason"] != "Cancelled"]
    while missing and time.monotonic() < end and not is_interrupted():
        for job_id in list(missing):
            now = read(job_id)
            if not now.get("awaits_diagnosis"):
                found[job_id] = {**found[job_id], "diagnosis": now.get("diagnosis"), "awaits_diagnosis": False}
                missing.remove(job_id)
        if missing:
            time.sleep(_POLL_S)
    return found
