"""The steps of a job: roles that run one after another, each step as a gang of its own.

`Role.step` numbers the steps, from 0. `Status.step` is the step that starts next; what runs now shows in the placement,
which names the roles of one step. A step that has succeeded releases its nodes, and the next one waits in the queue at
the job's place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from windlass.core.model.job import Job
from windlass.core.model.status import Placement


def job_at_step(job: Job, step: int) -> Job:
    """Returns the job with the roles of one step only. `step`: a number beyond the last step is the last one."""
    if not has_steps(job):
        return job
    present = min(step, max(role.step for role in job.roles))
    return replace(job, roles=tuple(role for role in job.roles if role.step == present))


def has_steps(job: Job) -> bool:
    """Tells whether the job has more than one step."""
    return any(role.step for role in job.roles)


def jobs_of_steps(job: Job) -> Iterator[Job]:
    """Yields the job at each of its steps."""
    for step in sorted({role.step for role in job.roles}) or (0,):
        yield job_at_step(job, step)


def placed_step(job: Job, placement: Placement) -> int:
    """Returns the step to which a placement belongs."""
    return next((role.step for role in job.roles if role.name in placement.nodes), 0)


def step_after(job: Job, step: int) -> int | None:
    """Returns the step that follows another one; None after the last.

    The last is that of the roles which decide on success, if the job names any: no further step starts.
    """
    deciding = [role.step for role in job.roles if role.name in job.success.roles]
    if deciding and max(deciding) <= step:
        return None
    return min((role.step for role in job.roles if role.step > step), default=None)
