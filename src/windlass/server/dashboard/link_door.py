"""Sign-in of a browser on this machine: the one-time link of the command line, then a cookie."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from windlass.server.dashboard.guard import LOGIN
from windlass.server.dashboard.sessions import SESSION_LIFETIME_MS, Session, Sessions

_NO_SESSION = "This page needs a link of its own: run `windlass ui` and open the address that it prints.\n"


@dataclass(frozen=True, slots=True)
class LinkDoor:
    """The interface `guard.Door` for a server on the loopback interface.

    `hosts`: values of the Host header that name this server; `cookie`: name of the session's cookie.
    """

    sessions: Sessions
    hosts: Callable[[], Collection[str]]
    cookie: Callable[[], str]
    now: Callable[[], int]
    reads_only: str = "this session only reads: run `windlass ui --allow-actions`"

    def origin(self, request: Request) -> str:
        """Origin of the pages: no TLS on the loopback interface."""
        return f"http://{request.headers['host']}"

    async def admit(self, request: Request) -> Session | Response:
        """The session of the cookie, or the exchange of a link for one."""
        if request.headers.get("host", "") not in self.hosts():
            return PlainTextResponse("unknown host\n", 421)
        if request.url.path == LOGIN:
            return self._log_in(request)
        session = self.sessions.find(read_cookie(request.headers, self.cookie()), self.now())
        return PlainTextResponse(_NO_SESSION, 401) if session is None else session

    def _log_in(self, request: Request) -> Response:
        """Exchanges the token of a one-time link for a cookie. A browser that is signed in needs none."""
        cookie = self.sessions.redeem(request.query_params.get("token", ""), self.now())
        if cookie is None and self.sessions.find(read_cookie(request.headers, self.cookie()), self.now()) is not None:
            return RedirectResponse(local_path(request.query_params.get("to", "/")), 303)
        if cookie is None:
            return PlainTextResponse("This link was used already, or is too old: run `windlass ui` again.\n", 401)
        answer = RedirectResponse(local_path(request.query_params.get("to", "/")), 303)
        age = SESSION_LIFETIME_MS // 1000
        answer.set_cookie(self.cookie(), cookie, max_age=age, httponly=True, samesite="strict", path="/")
        return answer


def read_cookie(headers: Headers, name: str) -> str:
    """Value of a cookie; empty without it."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def local_path(path: str) -> str:
    """The path of a page of ours; anything else becomes the first page."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) else "/"
