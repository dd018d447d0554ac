"""Leader election on a fake Lease, with a clock that the test advances. Each attempt is requested; no test sleeps."""

from __future__ import annotations

import asyncio
import copy
import math
import threading
from dataclasses import replace
from typing import Any, Self

import pytest

from windlass.backends.kubernetes.client.api_errors import ApiError, Unreachable
from windlass.jobs.kubernetes.labels import LEADER_ADDRESS
from windlass.server.operator.election import Election, LeaseSettings, LostError
from windlass.server.operator.lease_renewal import LoopBeat, keep_in_thread


class FakeLease:
    """An API server with one Lease."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.down = False

    async def get(self, *_: object, **__: object) -> dict[str, Any]:
        self._answer()
        if self.lease is None:
            raise ApiError(404, "NotFound")
        return copy.deepcopy(self.lease)

    async def create(self, _resource: object, body: dict[str, Any], **_: object) -> dict[str, Any]:
        self._answer()
        if self.lease is not None:
            raise ApiError(409, "AlreadyExists")
        return self._keep(body)

    async def replace(self, _resource: object, body: dict[str, Any], **_: object) -> dict[str, Any]:
        self._answer()
        assert self.lease is not None
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict")
        return self._keep(body)

    def _answer(self) -> None:
        if self.down:
            raise Unreachable("no answer")

    def _keep(self, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        self.lease = copy.deepcopy(body)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return copy.deepcopy(self.lease)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Stand:
    """Two candidates for one Lease of ten seconds."""

    def __init__(self) -> None:
        self.api, self.clock = FakeLease(), Clock()
        self.a, self.b = self.candidate("a"), self.candidate("b")

    def candidate(self, name: str) -> Election:
        terms = LeaseSettings("ns", "windlass", name, 10, f"http://{name}")
        return Election(self.api, terms, lambda _text: None, self.clock)  # type: ignore[arg-type]

    def attempt(self, election: Election) -> bool:
        return asyncio.run(election._attempt())


def test_the_first_candidate_leads_and_the_second_follows() -> None:
    stand = Stand()
    assert stand.attempt(stand.a)
    assert not stand.attempt(stand.b)
    assert (stand.a.may_lead(), stand.b.may_lead(), stand.b.holder) == (True, False, "a")
    assert stand.api.lease is not None
    assert stand.api.lease["metadata"]["annotations"] == {LEADER_ADDRESS: "http://a"}


def test_a_leader_stops_before_another_candidate_may_lead() -> None:
    stand = Stand()
    stand.attempt(stand.a)
    stand.attempt(stand.b)
    while stand.a.may_lead():
        assert not stand.attempt(stand.b)
        stand.clock.now += 0.5
    assert stand.clock.now < 110
    stand.clock.now = 110.1
    assert stand.attempt(stand.b)
    assert not stand.attempt(stand.a)


def test_a_follower_counts_the_lease_from_its_own_observation() -> None:
    stand = Stand()
    stand.attempt(stand.a)
    stand.clock.now += 9
    assert not stand.attempt(stand.b)
    stand.clock.now += 9
    assert not stand.attempt(stand.b)
    stand.clock.now += 1.1
    assert stand.attempt(stand.b)


def test_a_renewed_lease_is_kept() -> None:
    stand = Stand()
    stand.attempt(stand.a)
    for _ in range(5):
        stand.clock.now += 4
        assert stand.attempt(stand.a)
        assert not stand.attempt(stand.b)
    assert stand.api.lease is not None
    assert stand.api.lease["spec"]["leaseTransitions"] == 0


def test_an_overtaken_leader_learns_it_from_the_conflict() -> None:
    stand = Stand()
    stand.attempt(stand.a)
    stand.attempt(stand.b)
    stand.clock.now += 11
    assert stand.attempt(stand.b)
    assert not stand.attempt(stand.a)
    assert not stand.attempt(stand.a)
    assert stand.a.holder == "b"


def test_a_leader_that_cannot_renew_learns_it_in_time() -> None:
    stand = Stand()
    stand.attempt(stand.a)
    stand.api.down = True
    stand.clock.now += 8.1

    async def keep() -> None:
        election = Election(stand.api, LeaseSettings("ns", "windlass", "a", 0.001), lambda _text: None, stand.clock)  # type: ignore[arg-type]
        await asyncio.wait_for(election.keep(), 5)

    with pytest.raises(LostError):
        asyncio.run(keep())
    assert not stand.a.may_lead()


class ThreadLease(FakeLease):
    """Advances a clock by 10 ms at each renewal, and is its own connection."""

    def __init__(self, clock: Clock, until: float) -> None:
        super().__init__()
        self.clock, self.until, self.reached = clock, until, threading.Event()
        self.threads: set[threading.Thread] = set()
        """Threads in which it was used as a connection."""

    async def __aenter__(self) -> Self:
        self.threads.add(threading.current_thread())
        return self

    async def __aexit__(self, *_: object) -> None:
        return

    async def replace(self, *words: Any, **more: object) -> dict[str, Any]:
        self.clock.now += 0.01
        if self.clock.now >= self.until:
            self.reached.set()
            await asyncio.sleep(3600)  # so that the clock stands still from now on
        return await super().replace(*words, **more)


def test_a_turn_longer_than_the_lease_does_not_depose_the_leader() -> None:
    clock = Clock()
    api = ThreadLease(clock, until=clock.now + 0.1)
    election = Election(api, LeaseSettings("ns", "windlass", "a", 0.05), lambda _text: None, clock)  # type: ignore[arg-type]

    async def lead() -> None:
        assert await election._attempt()
        keeping = asyncio.create_task(keep_in_thread(election, lambda: api))  # type: ignore[arg-type,return-value]
        await asyncio.sleep(0)
        assert api.reached.wait(120)  # blocks the event loop
        assert election.may_lead()
        assert not keeping.done()
        keeping.cancel()
        await asyncio.wait([keeping])
        assert [(each.name, each.is_alive()) for each in api.threads] == [("lease", False)]

    asyncio.run(lead())


class SlowToClose(ThreadLease):
    """A connection that does not close before `may_close` is set."""

    def __init__(self) -> None:
        super().__init__(Clock(), until=math.inf)
        self.opened, self.closing, self.may_close = threading.Event(), threading.Event(), threading.Event()

    async def __aenter__(self) -> Self:
        self.opened.set()
        return await super().__aenter__()

    async def __aexit__(self, *_: object) -> None:
        self.closing.set()
        self.may_close.wait(120)


def test_the_thread_of_the_lease_has_ended_although_its_leader_is_cancelled_twice() -> None:
    api = SlowToClose()
    election = Election(api, LeaseSettings("ns", "windlass", "a", 3600), lambda _text: None)  # type: ignore[arg-type]

    async def lead() -> None:
        keeping = asyncio.create_task(keep_in_thread(election, lambda: api))  # type: ignore[arg-type,return-value]
        await asyncio.to_thread(api.opened.wait, 120)
        for _ in range(2):
            keeping.cancel()
            await asyncio.to_thread(api.closing.wait, 120)
        assert not keeping.done()
        api.may_close.set()
        await asyncio.wait([keeping])
        assert keeping.cancelled()
        assert [(each.name, each.is_alive()) for each in api.threads] == [("lease", False)]

    asyncio.run(lead())


def test_a_leader_whose_event_loop_hangs_gives_up_the_lease() -> None:
    stand = Stand()
    stand.attempt(stand.a)
    beat = LoopBeat(80, stand.clock)
    stand.a.settings = replace(stand.a.settings, duration=0.001)
    stand.clock.now += 79
    assert beat.is_alive()
    stand.clock.now += 1
    with pytest.raises(LostError, match="event loop"):
        asyncio.run(asyncio.wait_for(stand.a.keep(beat.is_alive), 5))
    assert not stand.a.may_lead()


def test_a_leader_that_cannot_renew_in_its_thread_leads_no_longer() -> None:
    api = ThreadLease(Clock(), until=math.inf)
    election = Election(api, LeaseSettings("ns", "windlass", "a", 0.5), lambda _text: None)  # type: ignore[arg-type]

    async def lead() -> None:
        assert await election._attempt()
        api.down = True
        await keep_in_thread(election, lambda: api)  # type: ignore[arg-type,return-value]

    with pytest.raises(LostError):
        asyncio.run(lead())
    assert not election.may_lead()


def test_a_released_lease_is_free_at_once() -> None:
    stand = Stand()
    stand.attempt(stand.a)
    stand.attempt(stand.b)
    asyncio.run(stand.a.resign())
    assert not stand.a.may_lead()
    assert stand.attempt(stand.b)
