"""Answers to users of a cluster: one user's slow logs and changes delay no page of another user."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from virtual_loop import run_in_virtual_time

from windlass.backends.kubernetes.client.object_reference import ObjectReference
from windlass.backends.kubernetes.client.resources import Resource
from windlass.backends.kubernetes.client.reviews import AccessRight, User, account_user
from windlass.server.dashboard.view import View
from windlass.server.dashboard.view_cache import ViewCache
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.operator.dashboard.cluster_pages import AnswerTurns, ClusterPages
from windlass.server.operator.dashboard.object_actions import ObjectActions
from windlass.server.operator.dashboard.user_sessions import UserSession

NEVER_S = 1e9


class Views:
    """Views that answer after `delay` seconds; logs and lookups of jobs as slow as that."""

    def __init__(self, delay: float) -> None:
        self.delay, self.unseen = delay, set[str]()
        self.service = SimpleNamespace(lookup=self)

    async def ids(self, name: str) -> list[str]:
        return [name]

    async def states(self, _name: str) -> list[Any]:
        await asyncio.sleep(self.delay)
        return []

    async def log(self, _name: str, _filters: Any) -> dict[str, Any]:
        await asyncio.sleep(self.delay)
        return {"lines": []}

    def find(self, view: str, _name: str, _filters: Any) -> Any:
        async def answer() -> dict[str, str]:
            await asyncio.sleep(self.delay)
            return {"view": view}

        return View((view,), answer)


class EveryRight:
    async def require(self, *_: Any) -> None:
        """Refuses nothing."""


def pages_of(name: str, views: Any, turns: AnswerTurns) -> ClusterPages:
    async def is_unchanged() -> bool:
        return True

    session = UserSession("csrf", may_act=True, expires_at=0, user=User(name))
    rights: Any = EveryRight()
    actions: Any = SimpleNamespace()

    async def hidden() -> set[str]:
        return set(views.unseen)

    return ClusterPages(session, views, hidden, rights, actions, "term", turns, is_unchanged)


def test_event_streams_of_the_accounts_of_a_namespace_count_together() -> None:
    def stream_key(user: str) -> str:
        return pages_of(user, Views(0), AnswerTurns()).visitor

    accounts = [account_user("team-a", f"account-{number}").name for number in range(50)]
    assert len({stream_key(account) for account in accounts}) == 1
    others = [account_user("team-b", "default").name, "ann", "bob"]
    assert len({stream_key(user) for user in (accounts[0], *others)}) == 4


async def read(pages: ClusterPages) -> Any:
    found = await pages.find("queue", "", {})
    assert found is not None
    async with found.turn():
        return await found.produce()


@pytest.mark.parametrize("kind", ["log", "act", "view"])
def test_a_user_whose_requests_hang_delays_no_page_of_another(kind: str) -> None:
    async def story() -> None:
        turns = AnswerTurns()
        ann, bob = pages_of("ann", Views(NEVER_S), turns), pages_of("bob", Views(0), turns)
        work = {
            "log": lambda: ann.log("team-a/big", {}),
            "act": lambda: ann.act("cancel", "team-a/big", {}),
            "view": lambda: read(ann),
        }
        hanging = [asyncio.create_task(work[kind]()) for _ in range(20)]
        await asyncio.sleep(1)
        async with asyncio.timeout(NEVER_S / 2):
            await asyncio.sleep(30)
            assert await read(bob) == {"view": "queue"}
            assert await bob.log("team-b/mine", {}) == {"lines": []}
        refused = [task.exception() for task in hanging if task.done()]
        assert len(refused) == 18
        assert all(isinstance(error, ApiError) and error.code is ErrorCode.BUSY for error in refused)
        for task in hanging:
            task.cancel()
        await asyncio.wait(hanging)

    run_in_virtual_time(story())


def test_a_user_who_may_only_view_is_told_why_actions_are_refused() -> None:
    class Viewer:
        """Lets a user get jobs, and refuses to change objects."""

        async def require(self, user: User, right: AccessRight, role: str = "view") -> None:
            if role == "edit":
                fix = f"ask for a RoleBinding to the ClusterRole edit in namespace {right.namespace}"
                raise ApiError(ErrorCode.NOT_ALLOWED, f"user {user.name} may not {right}", fix)

    job = ObjectReference(Resource("windlass.dev", "v1", "trainingjobs", "TrainingJob"), "team-a", "big", "uid-1")
    backend: Any = SimpleNamespace(jobs={"team-a/big": SimpleNamespace(reference=job)})

    async def refusals(rights: Any) -> Any:
        pages = replace(
            pages_of("cat", Views(0), AnswerTurns()), authorizer=rights, actions=ObjectActions(backend, rights)
        )
        found = await pages.find("refusals", "team-a/big", {})
        assert found is not None
        return await found.produce()

    found = run_in_virtual_time(refusals(Viewer()))
    assert found["change"].startswith("user cat may not patch")
    assert found["rerun"].endswith("ask for a RoleBinding to the ClusterRole edit in namespace team-a")
    assert run_in_virtual_time(refusals(EveryRight())) == {}


def test_hanging_logs_of_many_users_delay_no_page() -> None:
    async def story() -> None:
        turns = AnswerTurns()
        users = [pages_of(f"user-{number}", Views(NEVER_S), turns) for number in range(20)]
        hanging = [asyncio.create_task(user.log("team-a/big", {})) for user in users]
        await asyncio.sleep(1)
        async with asyncio.timeout(NEVER_S / 2):
            assert await read(pages_of("bob", Views(0), turns)) == {"view": "queue"}
        for task in hanging:
            task.cancel()
        await asyncio.wait(hanging)

    run_in_virtual_time(story())


def test_a_user_who_waits_for_a_turn_delays_no_user_who_asks_for_the_same_view() -> None:
    async def story() -> None:
        turns, cache, slow = AnswerTurns(), ViewCache(), asyncio.Event()

        async def ask(name: str, view: str, answer: Callable[[], Awaitable[Any]]) -> None:
            views = Views(0)
            views.audience, views.find = SimpleNamespace(key="all"), lambda *_: View((view,), answer)
            pages = pages_of(name, views, turns)
            found = await pages.find(view, "", {})
            assert found is not None
            await cache.answer(pages.audience, found, 1)

        async def quick() -> str:
            return "found"

        own = [asyncio.create_task(ask("bob", view, slow.wait)) for view in ("history", "time_axis", "queue")]
        waiting = asyncio.create_task(ask("bob", "overview", quick))
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await ask("alice", "overview", quick)
        assert not waiting.done()
        slow.set()
        await asyncio.gather(*own, waiting)

    asyncio.run(story())


def test_a_namespace_that_appears_while_an_answer_is_computed_is_not_named() -> None:
    async def story() -> None:
        views = Views(0)

        async def why() -> dict[str, str]:
            views.unseen.add("secret")
            return {"message": "waits behind secret/digits"}

        views.find = lambda *_: View(("overview",), why)
        found = await pages_of("ann", views, AnswerTurns()).find("overview", "", {})
        assert found is not None
        assert await found.produce() == {"message": "waits behind (another namespace)"}

    run_in_virtual_time(story())
