"""Reads the same jobs of Slurm several times, and the queue of the whole cluster only after a change of one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from windlass.backends.slurm.commands import CommandRunner
from windlass.backends.slurm.job_records import SlurmJob
from windlass.backends.slurm.job_states import phase_of
from windlass.backends.slurm.queries import watch_jobs
from windlass.core.model.status import Phase

Found: TypeAlias = tuple[Sequence[SlurmJob], Sequence[SlurmJob]]
"""The read jobs, and all jobs that the controller knows."""
_QUEUE_AGE_S = 30.0
"""Age up to which the queue is used again for the position and the expected start of a waiting job."""


class JobWatch:
    """Jobs that are read several times.

    `read`: reads them, as they are at a time of the monotonic clock or later. Raises what `read` and `run` raise.
    """

    def __init__(self, run: CommandRunner, read: Callable[[float], Found], clock: Callable[[], float]) -> None:
        self._run, self._read, self._clock = run, read, clock
        self._found: Found = (), ()
        self._states = ""
        self._due = -math.inf

    def read(self) -> Found:
        """Returns the jobs and all jobs, which are those of an earlier time as long as the jobs have not changed."""
        now = self._clock()
        numbers = list(dict.fromkeys(str(job.array or job.number) for job in self._found[0]))
        states = watch_jobs(self._run, numbers) if numbers else ""
        if states and states == self._states and now < self._due:
            return self._found
        self._states = states
        self._found = self._read(now)
        is_waiting = any(phase_of(job) is Phase.QUEUED for job in self._found[0])
        self._due = now + _QUEUE_AGE_S if is_waiting else math.inf
        return self._found
