"""The environment of a second run of an ended job, from the records of this machine."""

from __future__ import annotations

import contextlib
import os

from windlass.backends.local.paths import StatePaths
from windlass.backends.local.state_reader import StateReader
from windlass.backends.local.submission_origins import environment_of
from windlass.server.rerun import RerunEnvironment, rerun_environment


def read_rerun_environment(paths: StatePaths, job_id: str) -> RerunEnvironment:
    """Reads what is kept of a job's environment; its secrets are those of this process. Raises BackendError."""
    records = StateReader.open(paths)
    if records is None:
        return RerunEnvironment()
    with contextlib.closing(records):
        return rerun_environment(environment_of(records, job_id), os.environ)
