"""Checks of every request of a browser, before any page or query: host, session, origin, and the token of changes.

A page of another site cannot read answers (same-origin policy), cannot be the frame around a page (frame-ancestors),
reaches no session by a name that resolves to this machine (host), and cannot send a change (SameSite, origin, token).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.server.dashboard.sessions import Session, Sessions

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
_NO_SESSION = "This page needs a link of its own: run `windlass ui` and open the address that it prints.\n"


class DashboardGuard:
    """ASGI middleware with these checks. `hosts`: values of the Host header that name this server."""

    def __init__(
        self,
        app: ASGIApp,
        sessions: Sessions,
        hosts: Callable[[], Collection[str]],
        cookie: Callable[[], str],
        now: Callable[[], int],
    ) -> None:
        self._app, self._sessions, self._hosts, self._cookie, self._now = app, sessions, hosts, cookie, now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves the request, or refuses it."""
        headers = Headers(scope=scope)
        session = self._sessions.find(_cookie_of(headers, self._cookie()), self._now())
        refusal = self._refusal(scope, headers, session)
        scope[SESSION] = session
        answer: ASGIApp = self._app if refusal is None else refusal
        await answer(scope, receive, _with_security_headers(send))

    def _refusal(self, scope: Scope, headers: Headers, session: Session | None) -> Response | None:
        if headers.get("host", "") not in self._hosts():
            return PlainTextResponse("unknown host\n", 421)
        if scope["path"] == LOGIN:
            return None
        if session is None:
            return PlainTextResponse(_NO_SESSION, 401)
        fault = "" if scope["method"] in ("GET", "HEAD") else _fault_of_change(headers, session)
        return PlainTextResponse(f"{fault}\n", 403) if fault else None


def _fault_of_change(headers: Headers, session: Session) -> str:
    """Reason why a request may change nothing; empty if it may."""
    own_origin = f"http://{headers['host']}"
    if headers.get("origin", own_origin) != own_origin:
        return "the request comes from another site"
    if not secrets.compare_digest(headers.get(CSRF_HEADER, "").encode(), session.csrf.encode()):
        return "the request lacks the token of its page: reload the page"
    return "" if session.may_act else "this session only reads: run `windlass ui --allow-actions`"


def _cookie_of(headers: Headers, name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _with_security_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _SECURITY_HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return send_with_headers
