"""When a job would start that is not submitted: `sbatch --test-only` and `srun --test-only`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windlass.core.explain.admission_check import admission_refusal
from windlass.core.explain.start_estimate import expected_start
from windlass.core.ledger import Ledger
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.gang import pending_of
from windlass.core.model.job import Job
from windlass.jobs.cluster.snapshot_file import from_plain
from windlass.server.errors import ApiError, ErrorCode

_NEW = "new-0"


def estimate_start(plain: dict[str, Any], job: Job) -> int | None:
    """The expected start of a job in ms; None if it depends on a job without a time limit.

    `plain`: the snapshot of the controller. Raises ApiError REFUSED if the job can never run there.
    """
    taken = from_plain(plain)
    if no := admission_refusal(taken.snapshot, job):
        raise ApiError(ErrorCode.REFUSED, f"{job.name} can never run here: {no.message}")
    gang = pending_of(create_state(_NEW, 2**31, replace(job, after=()), taken.now))
    ledger = Ledger.at(taken.snapshot)
    ledger.add_pending(gang)
    return expected_start(ledger.snapshot(), gang, taken.now)
