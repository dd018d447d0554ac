"""Requests of one user at once: those beyond the limit are answered at once, and others are not delayed."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive, Scope, Send
from virtual_loop import run_in_virtual_time

from windlass.backends.kubernetes.client.reviews import User, account_user
from windlass.server.dashboard.guard import SESSION
from windlass.server.operator.dashboard.request_limit import STREAM, RequestLimit
from windlass.server.operator.dashboard.user_sessions import UserSession


class SlowPages:
    """Pages that answer when they are told to, whether or not their client is there."""

    def __init__(self) -> None:
        self.answer, self.under_way = asyncio.Event(), 0

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        self.under_way += 1
        await self.answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        self.under_way -= 1


async def ask(limit: RequestLimit, user: User, path: str = "/api/history") -> int:
    """The status of an answer."""
    statuses = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    session = UserSession("csrf", may_act=False, expires_at=0, user=user)
    await limit({"type": "http", "method": "GET", "path": path, "headers": [], SESSION: session}, receive, send)
    return statuses[0]


def test_requests_whose_clients_have_gone_are_bounded() -> None:
    async def story() -> None:
        pages = SlowPages()
        limit = RequestLimit(pages)
        accounts = [account_user("team-a", f"account-{number}") for number in range(6_000)]
        tasks = [asyncio.create_task(ask(limit, account)) for account in accounts]
        await asyncio.sleep(1)
        assert pages.under_way == 32
        others = [asyncio.create_task(ask(limit, User("bob"))), asyncio.create_task(ask(limit, accounts[0], STREAM))]
        await asyncio.sleep(1)
        assert pages.under_way == 34
        pages.answer.set()
        assert sorted(await asyncio.gather(*tasks)) == [200] * 32 + [429] * (6_000 - 32)
        assert await asyncio.gather(*others) == [200, 200]
        assert await ask(limit, accounts[0]) == 200
        assert not limit._requests

    run_in_virtual_time(story())
