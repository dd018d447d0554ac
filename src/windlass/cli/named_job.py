"""The job that a name means to a verb that works on one: that of a schedule is its living or latest run."""

from __future__ import annotations

from typing import Any, Protocol

from windlass.jobs.kubernetes.labels import SCHEDULE
from windlass.server.errors import ApiError, ErrorCode

Json = dict[str, Any]


class _JobSource(Protocol):
    def job(self, name: str, /) -> Json: ...

    def jobs(self, **filters: Any) -> list[Json]: ...


def read_job(source: _JobSource, name: str) -> Json:
    """Returns the details of a job, the lines of an array's members, or the details of a schedule's run.

    Raises ApiError, also for a schedule without a run.
    """
    details = source.job(name)
    if "cron" not in details:
        return details
    lines = source.jobs(name=details["spec"]["name"], all="1", fields="id,number,labels")
    runs = [(line["number"], line["id"]) for line in lines if line["labels"].get(SCHEDULE) == details["name"]]
    if not runs:
        fix = f"start one with: windlass submit --from {name}"
        raise ApiError(ErrorCode.NO_SUCH_JOB, f"no run of the schedule {name} is recorded", fix)
    living = [run for run in runs if run[1] in details["active"]]
    return source.job(max(living or runs)[1])
