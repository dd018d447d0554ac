"""Audiences of users: computed once for all open pages, and again when there is a new namespace."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from reviewing_api import ReviewingApi
from virtual_loop import run_in_virtual_time

from windlass.backends.kubernetes.client.reviews import User, account_user
from windlass.backends.port import BackendError
from windlass.server.feed import EventFeed
from windlass.server.operator.dashboard.leader_dashboard import LeaderDashboard
from windlass.server.operator.dashboard.user_sessions import UserSession
from windlass.server.operator.queries.authorization import Authorizer


class Cluster:
    """Namespaces of jobs that exist (`here`), and of recorded ones."""

    def __init__(self) -> None:
        self.here = {"team-a", "team-b"}
        self.questions = self.scans = 0
        self.delay = 1.0

    def dashboard(self) -> LeaderDashboard:
        async def recorded() -> set[str]:
            self.questions += 1
            await asyncio.sleep(self.delay)
            return {"team-old"}

        def scan() -> set[str]:
            self.scans += 1
            return self.here

        service: Any = SimpleNamespace(namespaces=scan)
        records: Any = SimpleNamespace(namespaces=recorded)
        controller: Any = SimpleNamespace()
        backend: Any = SimpleNamespace(schedules=SimpleNamespace(namespaces=set[str]))
        return LeaderDashboard(service, controller, records, backend, EventFeed())


def authorizer_of(api: Any) -> Authorizer:
    return Authorizer(api)


def test_open_pages_of_a_user_share_what_it_may_read() -> None:
    async def story() -> None:
        api, cluster = ReviewingApi(allowed=frozenset({"team-a", "team-c"})), Cluster()
        dashboard, authorizer = cluster.dashboard(), authorizer_of(api)
        found = await asyncio.gather(*(dashboard._find_audience(authorizer, User("ann")) for _ in range(200)))
        assert {audience.namespaces for audience in found} == {frozenset({"team-a"})}
        assert cluster.questions == 1
        asked = api.asked.total()
        cluster.here = {*cluster.here, "team-c"}
        dashboard._versions.number += 1
        audience = await dashboard._find_audience(authorizer, User("ann"))
        assert audience.namespaces == {"team-a", "team-c"}
        assert api.asked.total() == asked + 1

    run_in_virtual_time(story())


def test_accounts_of_one_namespace_delay_no_other_user() -> None:
    async def story() -> None:
        cluster = Cluster()
        cluster.here = {f"team-{number}" for number in range(100)}
        dashboard, authorizer = cluster.dashboard(), authorizer_of(ReviewingApi(0.1))
        accounts = [account_user("team-1", f"account-{number}") for number in range(50)]
        storm = [asyncio.create_task(dashboard._find_audience(authorizer, account)) for account in accounts]
        await asyncio.sleep(2)
        begin = asyncio.get_running_loop().time()
        await dashboard._find_audience(authorizer, User("bob"))
        assert asyncio.get_running_loop().time() - begin < 4
        assert not all(task.done() for task in storm)
        await asyncio.gather(*storm)

    run_in_virtual_time(story())


def test_open_pages_find_the_namespaces_of_a_version_once() -> None:
    async def story() -> None:
        cluster = Cluster()
        dashboard, authorizer = cluster.dashboard(), authorizer_of(ReviewingApi())
        for _ in range(3):
            await asyncio.gather(*(dashboard._find_audience(authorizer, User("ann")) for _ in range(50)))
            dashboard._versions.number += 1
        assert cluster.scans == 3

    run_in_virtual_time(story())


def test_a_history_that_hangs_delays_pages_for_seconds_and_leaves_its_last_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr("windlass.server.operator.queries.expiring_cache.time.monotonic", loop.time)
        cluster = Cluster()
        dashboard = cluster.dashboard()
        assert await dashboard._namespaces() == {"team-a", "team-b", "team-old"}
        cluster.delay = 1e9
        await asyncio.sleep(60)
        begin = loop.time()
        assert await dashboard._namespaces() == {"team-a", "team-b", "team-old"}
        assert loop.time() - begin <= 3.1

    run_in_virtual_time(story())


def test_a_history_that_has_never_answered_is_an_error() -> None:
    async def story() -> None:
        cluster = Cluster()
        cluster.delay = 1e9
        with pytest.raises(BackendError, match="within 3 s"):
            await cluster.dashboard()._namespaces()

    run_in_virtual_time(story())


def test_namespaces_that_appear_during_a_request_are_hidden_by_their_own_review() -> None:
    async def story() -> None:
        cluster = Cluster()
        dashboard = cluster.dashboard()
        door: Any = None
        dashboard.start()
        authorizer = authorizer_of(ReviewingApi(allowed=frozenset({"team-a", "team-c"})))
        session = UserSession("csrf", may_act=False, expires_at=0, user=User("ann"))
        pages = await dashboard._pages_of(session, door, authorizer)
        assert set(await pages.hidden()) == {"team-b", "team-old"}
        cluster.here = {*cluster.here, "team-c", "team-d"}
        assert set(await pages.hidden()) == {"team-b", "team-old", "team-d"}
        dashboard.feed.close()
        await dashboard.close()

    run_in_virtual_time(story())
