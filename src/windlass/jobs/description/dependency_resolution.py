"""Ids in the place of the names that a job waits for."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from windlass.core.model.job import Condition, Dependency, Job

ResolveName: TypeAlias = Callable[[str], Sequence[str]]
"""Returns the ids that a name means; raises an error for an unknown job."""


def resolve_dependencies(job: Job, find: ResolveName, find_earlier: ResolveName) -> tuple[Dependency, ...]:
    """The dependencies of a job, or of a member of an array, with ids.

    `find`: ids of the job that a name means, or of the members of an array. `find_earlier`: ids of all jobs of a name
    that have not ended. Raises ValueError if another array lacks the member's index.
    """
    waits = list[Dependency]()
    for wanted in job.after:
        ids = find_earlier(wanted.job_id) if wanted.condition is Condition.EARLIER else find(wanted.job_id)
        if wanted.condition is Condition.MATCHING and job.array is not None and len(ids) > 1:
            ids = [job_id for job_id in ids if re.search(rf"[_-]{job.array.index}$", job_id)]
            if not ids:
                raise ValueError(f"{wanted.job_id} has no member of index {job.array.index}")
        waits += (Dependency(job_id, wanted.condition) for job_id in ids)
    return tuple(dict.fromkeys(waits))
