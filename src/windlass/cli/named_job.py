"""The job that a name means to a verb that works on one: that of a schedule is its living or latest run."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from windlass.cli.job_submission import print_note
from windlass.jobs.kubernetes.labels import SCHEDULE
from windlass.server.errors import ApiError, ErrorCode

Json = dict[str, Any]


class _JobSource(Protocol):
    def job(self, name: str, /) -> Json: ...

    def jobs(self, **filters: Any) -> list[Json]: ...


@runtime_checkable
class RunFinder(Protocol):
    """A source whose runs are found by their objects: a cluster."""

    def newest_run(self, schedule: Json, /) -> str | None:
        """The id of the living or latest run of a schedule; None without one."""


def read_job(source: _JobSource, name: str) -> Json:
    """Returns the details of a job, the lines of an array's members, or the details of a schedule's run.

    Raises ApiError, also for a schedule without a run.
    """
    details = source.job(name)
    return source.job(choose_run(source, details)) if "cron" in details else details


def choose_run(source: _JobSource, schedule: Json) -> str:
    """Returns the id of the run that the name of a schedule means, and names it on stderr. Raises ApiError."""
    name = schedule["name"]
    run = source.newest_run(schedule) if isinstance(source, RunFinder) else _find_by_label(source, schedule)
    if run is None:
        fix = f"start one with: windlass submit --from {name}"
        raise ApiError(ErrorCode.NO_SUCH_JOB, f"no run of the schedule {name} is recorded", fix)
    print_note(f"{name} is a schedule: its run {run} is meant")
    return run


def _find_by_label(source: _JobSource, schedule: Json) -> str | None:
    """The living or latest run among the jobs of this machine."""
    lines = source.jobs(name=schedule["spec"]["name"], all="1", fields="id,number,labels")
    runs = [(line["number"], line["id"]) for line in lines if line["labels"].get(SCHEDULE) == schedule["name"]]
    living = [run for run in runs if run[1] in schedule["active"]]
    return str(max(living or runs)[1]) if runs else None
