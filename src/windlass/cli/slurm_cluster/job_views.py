"""JSON of Slurm's jobs, in the form of a daemon's answers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from windlass.backends.local.state_reader import Task
from windlass.backends.port import Transition
from windlass.backends.slurm.job_records import SlurmJob
from windlass.backends.slurm.job_states import job_state, node_names, phase_of
from windlass.backends.slurm.pending_reasons import expected_start, queue_position, reason_message
from windlass.core.model.status import TERMINAL, JobState, Phase
from windlass.server import job_lines, views

Json = dict[str, Any]


def job_line(job: SlurmJob, jobs: Sequence[SlurmJob]) -> Json:
    """Returns a job as one line of a listing; a waiting one with Slurm's reason and expected start."""
    line = job_lines.job_line(job_state(job))
    if phase_of(job) not in (Phase.QUEUED, Phase.SUSPENDED):
        return line
    expected = expected_start(job)
    return line | {
        "reason": job.reason,
        "message": reason_message(job),
        "position": queue_position(job, jobs),
        "eta": expected,
        "certainty": "expected" if expected else "",
    }


def job_details(job: SlurmJob, jobs: Sequence[SlurmJob]) -> Json:
    """Returns all details of a job."""
    state = job_state(job)
    details = views.job_details(state, job_lines.NOT_PENDING, _tasks(job, state), _transitions(state))
    return details | job_line(job, jobs)


def array_id(jobs: Sequence[SlurmJob]) -> str:
    """Returns the id of the array to which the jobs belong."""
    return f"{jobs[0].name}-{jobs[0].array}"


def listing_order(job: SlurmJob) -> tuple[int, int, int]:
    """Sorts holders of nodes before waiting jobs by priority, before others."""
    phase = phase_of(job)
    if phase is Phase.QUEUED:
        return 1, -job.priority, job.number
    return (2 if phase in TERMINAL or phase is Phase.SUSPENDED else 0), job.started or 0, job.number


def _tasks(job: SlurmJob, state: JobState) -> Iterator[Task]:
    """Yields the ranks of the present attempt; Slurm does not record those of earlier ones."""
    status, procs = state.status, state.job.roles[0].procs
    for replica, node in enumerate(node_names(job.nodes) if status.generation else ()):
        for rank in range(replica * procs, (replica + 1) * procs):
            yield Task(state.id, status.generation, rank, "worker", replica, node)


def _transitions(state: JobState) -> Iterator[Transition]:
    status = state.status
    yield Transition(state.id, status.created_at, "Submitted", "", Phase.QUEUED.value, "")
    if status.started_at is not None:
        yield Transition(state.id, status.started_at, "Started", Phase.QUEUED.value, Phase.ADMITTED.value, "")
    if status.finished_at is not None:
        end = status.message or status.phase.value.lower()
        yield Transition(state.id, status.finished_at, "Ended", Phase.RUNNING.value, status.phase.value, end)
