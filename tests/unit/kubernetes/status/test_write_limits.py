"""A write of an object that cannot be written ends within seconds: the whole controller waits for it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import orjson
import pytest
from test_state_writes import QUEUED, RUNNING, Server, gang_of
from virtual_loop import run_in_virtual_time

from windlass.backends.kubernetes.client.access import Access
from windlass.backends.kubernetes.client.api_errors import ApiError, Outcome, Unreachable
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.status import state_writes
from windlass.core.model.status import JobState, Status

LIMIT_S = state_writes.WRITE_TIMEOUT_S


class SlowTransport:
    """Takes `delay` seconds for each attempt at a write, and then fails it with `error`. A read finds `object`."""

    def __init__(self, error: ApiError, delay: float = 0.0, found: dict[str, Any] | None = None) -> None:
        self.error, self.delay, self.found = error, delay, found
        self.asked: list[str] = []

    async def exchange(self, method: str, *_request: object) -> bytes:
        self.asked.append(method)
        seconds = cast("float", _request[-1])
        await asyncio.sleep(min(self.delay, seconds))
        if self.delay >= seconds:
            raise Unreachable("did not answer in time")
        if method == "GET":
            return orjson.dumps(self.found)
        raise self.error


def seconds_to_fail(transport: SlowTransport, gang: Gang, status: Status, *, only_said: bool = False) -> float:
    """Seconds until the write has failed."""

    async def attempt() -> float:
        connection = Connection(cast("Access", None))
        connection._transport = cast("Any", transport)
        loop = asyncio.get_running_loop()
        began = loop.time()
        status_write = state_writes.write_status(connection, gang, lambda: {"state": "Running"})
        state = state_writes.write_state(connection, gang, JobState(gang.id, 7, gang.job, status), {})
        wanted, other = (status_write, state) if only_said else (state, status_write)
        other.close()
        with pytest.raises((ApiError, Unreachable)):
            await wanted
        return loop.time() - began

    return cast("float", run_in_virtual_time(attempt()))


@pytest.mark.parametrize("only_said", [False, True])
def test_an_internal_error_ends_a_write_at_once(only_said: bool) -> None:
    transport = SlowTransport(ApiError(500, "InternalError", "failed calling webhook"))
    assert seconds_to_fail(transport, gang_of(Server()), QUEUED, only_said=only_said) == 0
    assert transport.asked == ["PATCH"]


@pytest.mark.parametrize("only_said", [False, True])
def test_a_slow_webhook_ends_a_write_at_its_limit(only_said: bool) -> None:
    transport = SlowTransport(ApiError(500), delay=60)
    assert seconds_to_fail(transport, gang_of(Server()), QUEUED, only_said=only_said) <= LIMIT_S
    assert LIMIT_S <= 3


def test_the_limit_holds_for_all_attempts_after_conflicts_together() -> None:
    server = Server()
    transport = SlowTransport(ApiError(409, "Conflict"), delay=0.8, found=server.object)
    assert seconds_to_fail(transport, gang_of(server), RUNNING) <= LIMIT_S


def test_a_write_that_was_certainly_not_carried_out_is_repeated_within_the_limit() -> None:
    error = ApiError(429, "TooManyRequests", retry_after=1.0)
    assert error.outcome is Outcome.NOT_DONE
    transport = SlowTransport(error)
    assert seconds_to_fail(transport, gang_of(Server()), QUEUED) <= LIMIT_S
    assert len(transport.asked) > 1
