"""Sign-in to the dashboard of a cluster: links that ask first, and limits of what a stranger can make it do."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from virtual_loop import run_in_virtual_time

from windlass.backends.kubernetes.client.reviews import User
from windlass.backends.port import BackendError
from windlass.server.dashboard.sessions import Session
from windlass.server.operator.dashboard.identity_door import IdentityDoor
from windlass.server.operator.dashboard.trusted_proxy import TrustedProxy

NEVER_S = 1e9


class Reviews:
    """Accepts tokens `good-NAME` after `delay` seconds; `fault`: what the API server does instead."""

    def __init__(self, delay: float = 0, fault: str = "") -> None:
        self.delay, self.fault = delay, fault
        self.asked: list[str] = []

    async def review(self, token: str) -> User | None:
        self.asked.append(token)
        await asyncio.sleep(self.delay)
        if self.fault:
            raise BackendError(self.fault)
        kind, _, name = token.partition("-")
        return User(name) if kind == "good" else None


class Place:
    """A door with a clock (ms) and a log."""

    def __init__(self, reviews: Reviews) -> None:
        self.clock = 0
        self.log: list[str] = []
        accepted: Any = reviews
        self.door = IdentityDoor(accepted, TrustedProxy(), lambda: self.clock, self.log.append)

    async def ask(self, method: str, path: str, body: Any = None, peer: str = "10.0.0.1", cookie: str = "") -> Any:
        headers = {"host": "d", "origin": "https://d", "content-type": "application/json", "cookie": cookie}

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

        plain, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "scheme": "https",
            "path": plain,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": (peer, 1),
            "server": ("d", 443),
        }
        return await self.door.admit(Request(scope, receive))

    async def sign_in(self, body: Any, peer: str = "10.0.0.1") -> Response:
        answer = await self.ask("POST", "/login", body, peer)
        assert isinstance(answer, Response)
        return answer


def text_of(answer: Response) -> str:
    return bytes(answer.body).decode()


def test_a_link_names_its_user_and_signs_in_only_when_that_is_confirmed() -> None:
    async def story() -> None:
        place = Place(Reviews())
        code = json.loads((await place.sign_in({"token": "good-mallory", "link": True})).body)["code"]

        # 1. opening the link, also many times, opens no session
        for _ in range(3):
            page = await place.ask("GET", f"/login?code={code}")
            assert (page.status_code, "set-cookie" in page.headers) == (200, False)
            asked = await place.sign_in({"code": code})
            assert (json.loads(asked.body), "set-cookie" in asked.headers) == ({"user": "mallory"}, False)

        # 2. the confirmation does, once
        confirmed = await place.sign_in({"code": code, "confirmed": True})
        assert confirmed.status_code == 204
        cookie = confirmed.headers["set-cookie"].partition(";")[0]
        session = await place.ask("GET", "/api/session", cookie=cookie)
        assert isinstance(session, Session)
        for body in ({"code": code}, {"code": code, "confirmed": True}, {"code": "guess"}):
            answer = await place.sign_in(body)
            assert (answer.status_code, "run `windlass ui` again" in text_of(answer)) == (401, True)

    asyncio.run(story())


def test_sign_ins_of_one_address_are_limited_and_those_of_others_go_on() -> None:
    async def story() -> None:
        reviews = Reviews()
        place = Place(reviews)
        answers = [await place.sign_in({"token": f"bad-{number}"}, "10.6.6.6") for number in range(200)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert (len(answers) - len(refused), len(reviews.asked)) == (20, 20)
        assert refused[0].headers["retry-after"] == "60"
        assert (await place.sign_in({"token": "good-ann"})).status_code == 204
        place.clock += 60_000
        assert (await place.sign_in({"token": "good-ann"}, "10.6.6.6")).status_code == 204

    asyncio.run(story())


def test_sign_ins_of_all_addresses_together_are_limited() -> None:
    async def story() -> None:
        reviews = Reviews()
        place = Place(reviews)
        for number in range(500):
            await place.sign_in({"token": "bad-x"}, f"10.6.0.{number}")
        assert len(reviews.asked) == 100

    asyncio.run(story())


def test_a_sign_in_ends_in_time_when_the_api_server_does_not_answer() -> None:
    async def story() -> None:
        place = Place(Reviews(NEVER_S))
        begin = asyncio.get_running_loop().time()
        answers = await asyncio.gather(*(place.sign_in({"token": "good-ann"}) for _ in range(10)))
        assert asyncio.get_running_loop().time() - begin <= 10
        assert {answer.status_code for answer in answers} == {503}

    run_in_virtual_time(story())


def test_an_error_of_the_api_server_is_for_the_log_alone() -> None:
    async def story() -> None:
        place = Place(Reviews(fault="https://10.96.0.1: no answer about team-a/secret"))
        answer = await place.sign_in({"token": "good-ann"})
        assert (answer.status_code, text_of(answer)) == (
            503, "The API server does not answer: try again in a minute, and read the operator's log.\n",
        )  # fmt: skip
        assert "team-a/secret" in place.log[0]

    asyncio.run(story())


def test_bodies_that_are_no_sign_in_are_refused() -> None:
    async def story() -> None:
        place = Place(Reviews())
        for body in (None, [], {}, {"token": 7}, {"code": ["x"]}, {"token": {}, "code": 1}):
            assert (await place.sign_in(body)).status_code == 401

    asyncio.run(story())
