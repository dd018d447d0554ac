"""Requests that the guard of the dashboard refuses, and the headers of all of its answers."""

import asyncio
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from windlass.server.dashboard.guard import CSRF_HEADER, DashboardGuard
from windlass.server.dashboard.link_door import LinkDoor
from windlass.server.dashboard.sessions import Sessions

NOW = 1_700_000_000_000
HOST = "127.0.0.1:7420"


class Guarded:
    """A guard before an application that answers "served", and a session."""

    def __init__(self, *, may_act: bool = True) -> None:
        self.sessions = Sessions()
        self.cookie = self.sessions.redeem(self.sessions.issue_link(NOW, may_act=may_act), NOW)
        session = self.sessions.find(str(self.cookie), NOW)
        assert session is not None
        self.csrf = session.csrf
        door = LinkDoor(self.sessions, lambda: [HOST], lambda: "windlass_7420", lambda: NOW)
        self.guard = DashboardGuard(_served, door)

    def request(self, method: str = "GET", path: str = "/", **headers: str) -> tuple[int, str, dict[str, str]]:
        given = {"host": HOST, "cookie": f"windlass_7420={self.cookie}", **headers}
        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()]
        scope: Scope = {"type": "http", "method": method, "path": path, "headers": raw, "query_string": b""}
        return asyncio.run(_answer(self.guard, scope))


async def _served(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("served")(scope, receive, send)


async def _answer(guard: DashboardGuard, scope: Scope) -> tuple[int, str, dict[str, str]]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await guard(scope, receive, send)
    headers: dict[str, Any] = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], sent[1]["body"].decode(), headers


def test_a_used_link_leads_a_browser_that_is_signed_in_to_the_pages() -> None:
    guarded = Guarded()
    status, _, headers = guarded.request(path="/login")
    assert (status, headers["location"]) == (303, "/")
    assert "set-cookie" not in headers
    assert guarded.request(path="/login", cookie="windlass_7420=other")[0] == 401


def test_a_session_reads_pages() -> None:
    assert Guarded().request()[:2] == (200, "served")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"cookie": ""}, 401),
        ({"cookie": "windlass_7420=guess"}, 401),
        ({"cookie": "windlass_7420=\x01;;="}, 401),
        ({"host": "evil.example:7420"}, 421),
        ({"host": ""}, 421),
    ],
)
def test_a_request_without_a_session_or_of_another_host_is_refused(headers: dict[str, str], status: int) -> None:
    found, body, _ = Guarded().request(**headers)
    assert found == status
    assert body != "served"


def test_a_change_needs_the_token_of_its_page() -> None:
    guarded = Guarded()
    assert guarded.request("POST")[0] == 403
    assert guarded.request("POST", **{CSRF_HEADER: "guess"})[0] == 403
    assert guarded.request("POST", **{CSRF_HEADER: guarded.csrf})[:2] == (200, "served")


def test_a_change_of_another_site_is_refused_even_with_the_token() -> None:
    guarded = Guarded()
    found = guarded.request("POST", **{CSRF_HEADER: guarded.csrf, "origin": "http://evil.example"})
    assert found[:2] == (403, "the request comes from another site\n")


def test_a_session_that_only_reads_changes_nothing_and_says_how_to_get_one_that_does() -> None:
    guarded = Guarded(may_act=False)
    status, body, _ = guarded.request("POST", **{CSRF_HEADER: guarded.csrf})
    assert (status, "--allow-actions" in body) == (403, True)


@pytest.mark.parametrize("host", [HOST, "evil.example"])
def test_every_answer_forbids_frames_foreign_scripts_and_caching(host: str) -> None:
    headers = Guarded().request(host=host)[2]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
