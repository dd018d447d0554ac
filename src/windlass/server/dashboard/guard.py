"""Checks of every request of a browser, before any page or query: host, session, origin, and the token of changes.

A page of another site cannot read answers (same-origin policy), cannot be the frame around a page (frame-ancestors),
reaches no session by a name that resolves to this machine (host), and cannot send a change (SameSite, origin, token).
"""

from __future__ import annotations

import secrets
from typing import Protocol

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.server.dashboard.sessions import Session

CSRF_HEADER = "x-windlass-csrf"
LOGIN = "/login"
SESSION = "windlass_session"
"""Key of the session in the scope of a request."""
_SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Door(Protocol):
    """Identification of the sender of a request."""

    @property
    def reads_only(self) -> str:
        """Refusal of a change in a session that only reads: how to get one that may change jobs."""

    async def admit(self, request: Request) -> Session | Response:
        """The session of a request; the answer to a request that has none, or that signs in or out."""

    def origin(self, request: Request) -> str:
        """Origin that the pages of this server have in the browser."""


class DashboardGuard:
    """ASGI middleware with these checks."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app, self._door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves the request, or refuses it."""
        request = Request(scope, receive)
        admitted = await self._door.admit(request)
        answer: ASGIApp
        if isinstance(admitted, Response):
            answer = admitted
        elif fault := self._fault(request, admitted):
            answer = PlainTextResponse(f"{fault}\n", 403)
        else:
            scope[SESSION], answer = admitted, self._app
        await answer(scope, receive, _with_security_headers(send))

    def _fault(self, request: Request, session: Session) -> str:
        """Reason why a request may change nothing; empty if it may, or changes nothing."""
        if request.method in ("GET", "HEAD"):
            return ""
        if is_of_other_site(request.headers, self._door.origin(request)):
            return "the request comes from another site"
        if not secrets.compare_digest(request.headers.get(CSRF_HEADER, "").encode(), session.csrf.encode()):
            return "the request lacks the token of its page: reload the page"
        return "" if session.may_act else self._door.reads_only


def is_of_other_site(headers: Headers, own_origin: str) -> bool:
    """Whether the browser says that a page of another site has sent the request."""
    return headers.get("origin", own_origin) != own_origin


def _with_security_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _SECURITY_HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return send_with_headers
