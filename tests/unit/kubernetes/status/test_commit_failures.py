"""Errors of writes that concern one job, and errors that concern the whole API server."""

from __future__ import annotations

import pytest

from windlass.backends.kubernetes.client.api_errors import ApiError, NotLeader, Unreachable
from windlass.backends.kubernetes.status.commit_failures import failures_of_jobs
from windlass.backends.kubernetes.status.state_writes import DeposedError

DENIED = ApiError(403, "Forbidden", "admission webhook says no")
BROKEN = ApiError(500, "InternalError", "failed calling webhook")


@pytest.mark.parametrize("error", [DENIED, BROKEN, ApiError(422)], ids=str)
def test_a_refused_object_fails_its_own_job(error: ApiError) -> None:
    assert failures_of_jobs([("a", error)]) == {"a": str(error)}
    assert failures_of_jobs([("a", None), ("b", error), ("c", None)]) == {"b": str(error)}


@pytest.mark.parametrize("error", [Unreachable("no connection"), ApiError(503), ApiError(429)], ids=str)
def test_a_server_that_does_not_answer_concerns_every_job(error: Exception) -> None:
    with pytest.raises(type(error)):
        failures_of_jobs([("a", error), ("b", error)])
    assert failures_of_jobs([("a", None), ("b", error)]) == {"b": str(error)}


@pytest.mark.parametrize(
    "error", [ApiError(401), NotLeader("lost the lease"), DeposedError("another"), OSError()], ids=str
)
def test_a_controller_that_may_not_write_commits_nothing(error: Exception) -> None:
    with pytest.raises(type(error)):
        failures_of_jobs([("a", None), ("b", error)])
