"""An error that nothing foresees ends the leadership term of a replica, and not its process."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, Self

import pytest

from windlass.backends.kubernetes.client.api_errors import Unreachable
from windlass.server.operator import replica
from windlass.server.operator.election import LeaseSettings, LostError
from windlass.server.operator.metrics import OperatorMetrics


class Terms:
    """Leadership terms that end with these errors, one after the other; the one after them does not end."""

    def __init__(self, *errors: Exception, leads: bool = True) -> None:
        self.errors, self.leads, self.began = list(errors), leads, 0
        self.last = asyncio.Event()

    async def run(self, _context: object, election: Any, _unfenced: object) -> None:
        self.began += 1
        if self.leads:
            election.holder = "a"
        if self.errors:
            async with asyncio.TaskGroup() as group:
                group.create_task(_fail(self.errors.pop(0)))
        self.last.set()
        await asyncio.Event().wait()


async def _fail(error: Exception) -> None:
    raise error


def run(monkeypatch: pytest.MonkeyPatch, *errors: Exception, leads: bool = True) -> tuple[list[float], Any, list[str]]:
    """Runs a replica through these terms; returns the waits between them, its metrics, and what it said."""
    waits, said, metrics = list[float](), list[str](), OperatorMetrics()
    sleep = asyncio.sleep

    async def wait(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    async def whole() -> None:
        terms = Terms(*errors, leads=leads)
        monkeypatch.setattr(replica, "_run_term", terms.run)
        monkeypatch.setattr(replica, "Connection", lambda *_, **__: _Context())
        context = SimpleNamespace(
            access=None,
            metrics=metrics,
            lease=LeaseSettings("ns", "l", "a"),
            say=said.append,
            endpoints=SimpleNamespace(),
        )
        running = asyncio.create_task(replica.run_replica(context))  # type: ignore[arg-type]
        ended = asyncio.create_task(terms.last.wait())
        await asyncio.wait([running, ended], return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if running.done():
            running.result()
        running.cancel()

    with monkeypatch.context() as patch:
        patch.setattr(replica.asyncio, "sleep", wait)
        asyncio.run(whole())
    return waits, metrics, said


class _Context:
    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


def test_a_replica_follows_again_after_a_growing_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    waits, metrics, said = run(monkeypatch, *(ValueError("odd") for _ in range(8)))
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert metrics.unforeseen_ends == 8
    assert said[0].startswith("no longer the leader, after an error that nothing foresees: ValueError: odd, at ")
    assert said[0].endswith(f"test_replica.py:{_fail.__code__.co_firstlineno + 1} _fail")


def test_the_loss_of_the_lease_is_followed_by_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    waits, metrics, said = run(monkeypatch, LostError("another replica may lead now"), LostError("again"))
    assert (waits, metrics.unforeseen_ends) == ([], 0)
    assert said == ["no longer the leader: another replica may lead now", "no longer the leader: again"]


def test_a_replica_that_could_never_use_the_cluster_ends_with_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        run(monkeypatch, Unreachable("no connection"), leads=False)
    assert raised.group_contains(Unreachable, match="no connection")


def test_a_cluster_that_cannot_be_reached_later_ends_the_term_only(monkeypatch: pytest.MonkeyPatch) -> None:
    waits, _, _ = run(monkeypatch, Unreachable("no connection"))
    assert waits == [1]


def test_a_replica_ends_although_its_term_fails_while_it_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task group hides the cancellation of its parent if one of its tasks fails at that moment."""
    terms = Terms()
    term_began = asyncio.Event()

    async def term(context: object, election: Any, unfenced: object) -> None:
        async with asyncio.TaskGroup() as group:
            if not term_began.is_set():
                group.create_task(_fail_when_cancelled(LostError("the lease could not be renewed")))
            term_began.set()
            await terms.run(context, election, unfenced)

    async def whole() -> None:
        monkeypatch.setattr(replica, "_run_term", term)
        monkeypatch.setattr(replica, "Connection", lambda *_, **__: _Context())
        context = SimpleNamespace(
            access=None,
            metrics=OperatorMetrics(),
            lease=LeaseSettings("ns", "l", "a"),
            say=lambda _text: None,
            endpoints=SimpleNamespace(),
        )
        running = asyncio.create_task(replica.run_replica(context))  # type: ignore[arg-type]
        await terms.last.wait()
        terms.last.clear()
        running.cancel()
        next_term = asyncio.create_task(terms.last.wait())
        await asyncio.wait([running, next_term], return_when=asyncio.FIRST_COMPLETED)
        assert running.cancelled()
        next_term.cancel()

    asyncio.run(whole())
    assert terms.began == 1


async def _fail_when_cancelled(error: Exception) -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise error from None
