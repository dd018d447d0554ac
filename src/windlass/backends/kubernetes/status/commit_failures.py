"""Separates failed writes of single jobs from failures of the whole API server.

A webhook or policy that refuses one object, or an internal error for it, concerns that job: it is deferred, and all
others continue. A server that does not answer, or answers too late, concerns every job: the turn is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.backends.kubernetes.client.api_errors import ApiError, NotLeader, Outcome
from windlass.backends.port import BackendError

_INTERNAL_ERROR = 500
"""Also the status of an admission webhook that cannot be called."""


def failures_of_jobs(outcomes: Sequence[tuple[str, BaseException | None]]) -> Mapping[str, str]:
    """Returns the jobs whose write failed, each with the reason. `outcomes`: of each job, the error of its write.

    Raises the first error that concerns every job.
    """
    failures: dict[str, str] = {}
    some_written = any(error is None for _, error in outcomes)
    for job_id, error in outcomes:
        if error is None:
            continue
        if not _concerns_one_job(error, some_written=some_written):
            raise error
        failures[job_id] = str(error)
    return failures


def _concerns_one_job(error: BaseException, *, some_written: bool) -> bool:
    if not isinstance(error, BackendError) or isinstance(error, NotLeader):
        return False
    if not isinstance(error, ApiError):
        return some_written
    if error.is_unauthorized:
        return False
    return some_written or error.outcome is Outcome.REFUSED or error.status == _INTERNAL_ERROR
