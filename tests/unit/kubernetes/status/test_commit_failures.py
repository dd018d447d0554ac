"""Errors of writes that concern one job, and errors that concern the whole API server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from windlass.backends.kubernetes.client.api_errors import ApiError, NotLeader, Unreachable
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.status.commit_failures import failures_of_jobs

DENIED = ApiError(403, "Forbidden", "admission webhook says no")
BROKEN = ApiError(500, "InternalError", "failed calling webhook")


class Server:
    """Answers a read with nodes, or fails it with `error`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[tuple[str, str, float]] = []

    async def request(self, method: str, path: str, *, params: Mapping[str, str], within: float) -> bytes:
        assert params == {"limit": "1"}, "the read is cheap"
        self.asked.append((method, path, within))
        if self.error is not None:
            raise self.error
        return b"{}"


def failures(outcomes: list[tuple[str, Any]], server: Server) -> Mapping[str, str]:
    return asyncio.run(failures_of_jobs(cast("Connection", server), outcomes))


@pytest.mark.parametrize("error", [DENIED, BROKEN, ApiError(422)], ids=str)
def test_a_refused_object_fails_its_own_job(error: ApiError) -> None:
    server = Server()
    assert failures([("a", error)], server) == {"a": str(error)}
    assert failures([("a", None), ("b", error), ("c", None)], server) == {"b": str(error)}
    assert server.asked == [], "the server has answered"


def test_an_unforeseen_error_fails_its_own_job() -> None:
    server = Server()
    assert failures([("a", None), ("b", OSError("odd"))], server) == {"b": "OSError: odd"}
    assert server.asked == []


@pytest.mark.parametrize("error", [Unreachable("no connection"), ApiError(503), ApiError(429)], ids=str)
def test_a_server_that_does_not_answer_concerns_every_job(error: Exception) -> None:
    with pytest.raises(type(error)):
        failures([("a", error), ("b", error)], Server(error))
    assert failures([("a", None), ("b", error)], Server()) == {"b": str(error)}


@pytest.mark.parametrize("error", [Unreachable("did not answer in time"), ApiError(504)], ids=str)
@pytest.mark.parametrize("probe", [None, BROKEN, DENIED], ids=str)
def test_a_write_without_an_answer_fails_its_own_job_if_the_server_answers_a_read(
    error: Exception, probe: Exception | None
) -> None:
    server = Server(probe)
    assert failures([("a", error)], server) == {"a": str(error)}
    ((method, path, within),) = server.asked
    assert (method, path) == ("GET", "/api/v1/nodes")
    assert within <= 2


@pytest.mark.parametrize("error", [ApiError(401), NotLeader("lost the lease")], ids=str)
def test_a_controller_that_may_not_write_commits_nothing(error: Exception) -> None:
    with pytest.raises(type(error)):
        failures([("a", None), ("b", error)], Server())
    with pytest.raises(type(error)):
        failures([("a", Unreachable("no connection")), ("b", error)], Server())
