"""Separates failed writes of single jobs from failures of the whole API server.

A webhook or policy that refuses one object, an internal error for it, or a webhook that is too slow, concerns that job:
it is deferred, and all others continue. So is a job whose write raises an error that nothing foresees. A server that
does not answer concerns every job: the turn is repeated. A write without an answer can be either; a read that no
webhook takes part in tells which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.backends.kubernetes.client.api_errors import INTERNAL_ERROR, ApiError, NotLeader, Outcome
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import NODES, path
from windlass.backends.port import BackendError

_PROBE_TIMEOUT_S = 2.0


async def failures_of_jobs(
    connection: Connection, outcomes: Sequence[tuple[str, BaseException | None]]
) -> Mapping[str, str]:
    """Returns the jobs whose write failed, each with the reason. `outcomes`: of each job, the error of its write.

    Raises the first error that concerns every job.
    """
    errors = {job_id: error for job_id, error in outcomes if error is not None}
    unanswered = [error for error in errors.values() if isinstance(error, BackendError) and not _is_answer(error)]
    for error in errors.values():
        if isinstance(error, NotLeader) or not isinstance(error, Exception) or _is_unauthorized(error):
            raise error
    if unanswered and not await _is_answering(connection):
        raise unanswered[0]
    return {job_id: _text_of(error) for job_id, error in errors.items()}


def _text_of(error: BaseException) -> str:
    """Returns the reason for people; the class of an error that no part of the backend foresees tells more."""
    return str(error) if isinstance(error, BackendError) else f"{type(error).__name__}: {error}"


async def _is_answering(connection: Connection) -> bool:
    """Reads one node from the API server and its etcd."""
    try:
        await connection.request("GET", path(NODES), params={"limit": "1"}, within=_PROBE_TIMEOUT_S)
    except BackendError as error:
        return _is_answer(error)
    return True


def _is_answer(error: BaseException) -> bool:
    """Tells whether the API server has decided about this one object: a refusal, or an internal error for it."""
    if not isinstance(error, ApiError) or _is_unauthorized(error):
        return False
    return error.outcome is Outcome.REFUSED or error.status == INTERNAL_ERROR


def _is_unauthorized(error: BaseException) -> bool:
    return isinstance(error, ApiError) and error.is_unauthorized
