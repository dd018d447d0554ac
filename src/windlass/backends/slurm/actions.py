"""Cancels, holds and releases jobs of Slurm."""

from __future__ import annotations

from contextlib import suppress

from windlass.backends.slurm.commands import CommandRunner
from windlass.backends.slurm.errors import SlurmError
from windlass.backends.slurm.job_records import SlurmJob
from windlass.backends.slurm.job_states import phase_of
from windlass.core.model.status import HOLDING


def cancel_job(run: CommandRunner, number: str) -> None:
    """Cancels a job: SIGTERM, and SIGKILL after Slurm's KillWait. Raises SlurmError.

    Slurm queues a job again that is cancelled while its nodes launch it, unless the job has no requeue. It takes no
    change of a job that has ended; what scancel says of it is the answer.
    """
    with suppress(SlurmError):
        run(["scontrol", "update", f"JobId={number}", "Requeue=0"])
    run(["scancel", number])


def hold_job(run: CommandRunner, job: SlurmJob) -> None:
    """Stops a job that holds nodes and keeps it from starting again. Raises SlurmError."""
    run(["scontrol", "requeuehold" if phase_of(job) in HOLDING else "hold", job.key])


def release_job(run: CommandRunner, job: SlurmJob) -> None:
    """Lets a held job start. Raises SlurmError."""
    run(["scontrol", "release", job.key])
