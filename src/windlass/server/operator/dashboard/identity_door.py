"""Sign-in of users of a cluster: a bearer token that becomes a cookie, or headers of a trusted proxy."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from windlass.backends.kubernetes.client.reviews import User
from windlass.backends.port import BackendError
from windlass.server.app import json_response
from windlass.server.dashboard.guard import CSRF_HEADER, LOGIN, is_of_other_site
from windlass.server.dashboard.link_door import local_path, read_cookie
from windlass.server.dashboard.page_files import asset_response, page_response
from windlass.server.dashboard.sessions import Session
from windlass.server.errors import HTTP_STATUS, ApiError
from windlass.server.operator.dashboard.trusted_proxy import TrustedProxy
from windlass.server.operator.dashboard.user_sessions import LIFETIME_MS, UserSession, UserSessions
from windlass.server.operator.queries.authentication import Authenticator

COOKIE = "__Host-windlass"
"""A browser sends it to this host over TLS only."""
LOGOUT = "/logout"
_PUBLIC = ("app.css", "icon.svg", "signin.css", "signin.js")
"""Files of the sign-in page, which everybody may read."""
_MAX_REVIEWS = 4
"""Maximum number of tokens under review at once."""
_NOT_SIGNED_IN = "You are not signed in, or the session has ended: reload the page.\n"
_NOT_ACCEPTED = (
    "The API server does not accept this token: it is wrong, too old, or was made for another audience. "
    "`kubectl create token ACCOUNT` prints one.\n"
)
_OTHER_SITE = "the request comes from another site\n"
_REFUSED = 401


@dataclass(frozen=True, slots=True)
class IdentityDoor:
    """The interface `guard.Door` for users of a cluster.

    `origins`: addresses of the dashboard in browsers where a proxy changes the Host header; `allows_actions`: whether
    sessions with a token may change jobs.
    """

    authenticator: Authenticator
    proxy: TrustedProxy
    now: Callable[[], int]
    origins: Collection[str] = ()
    allows_actions: bool = False
    sessions: UserSessions = field(default_factory=UserSessions)
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_REVIEWS))

    @property
    def reads_only(self) -> str:
        """Refusal of a change."""
        if self.allows_actions:
            return "this session only reads: sign in with a token, because changes are made with the user's own rights"
        return "this dashboard only reads: its operator runs without --dashboard-actions"

    def origin(self, request: Request) -> str:
        """Origin of the pages: the configured one that the browser names, else that of the Host header."""
        named = request.headers.get("origin", "")
        return named if named in self.origins else f"https://{request.headers.get('host', '')}"

    async def admit(self, request: Request) -> Session | Response:
        """The session of a user, or the answer to a request without one."""
        path = request.url.path
        if path.removeprefix("/assets/") in _PUBLIC:
            return asset_response(path.removeprefix("/assets/")) or PlainTextResponse("", 404)
        try:
            found: Session | Response | None
            found = await self._log_in(request) if path == LOGIN else await self._find_session(request)
        except ApiError as error:
            found = PlainTextResponse(f"{error}\n", HTTP_STATUS[error.code])
        except BackendError as error:
            found = PlainTextResponse(f"the API server cannot say who you are: {error}\n", 503)
        if found is None:
            return _refer_to_login(request)
        return self._log_out(request, found) if path == LOGOUT and isinstance(found, UserSession) else found

    async def lasts(self, session: UserSession) -> bool:
        """Whether a session has not ended, and its user has the same groups. Raises BackendError."""
        return not session.key or (
            self.sessions.has(session.key, self.now())
            and await self.authenticator.review(session.token) == session.user
        )

    async def _find_session(self, request: Request) -> UserSession | None:
        """The session by the headers of a trusted proxy, else by the cookie. Raises ApiError, BackendError."""
        user = self.proxy.find_user(request.scope)
        if user is not None:
            return UserSession(self._csrf(user), False, self.now() + LIFETIME_MS, user)
        session = self.sessions.find(read_cookie(request.headers, COOKIE), self.now(), may_act=self.allows_actions)
        if session is None:
            return None
        user = await self.authenticator.review(session.token)
        if user is None or user.name != session.user.name:  # a session ends with its token
            self.sessions.close(session.key)
            return None
        return replace(session, user=user)

    async def _log_in(self, request: Request) -> Response:
        """The sign-in page, or the exchange of a token for a cookie. Raises BackendError."""
        if request.method != "POST":
            code = request.query_params.get("code", "")
            return self._redeem(request, code) if code else page_response("signin.html")
        is_json = request.headers.get("content-type", "").partition(";")[0].strip() == "application/json"
        if not is_json or is_of_other_site(request.headers, self.origin(request)):
            return PlainTextResponse(_OTHER_SITE, 403)
        token, wants_link = await _read_sign_in(request)
        async with self._turns:
            user = await self.authenticator.review(token)
        if user is None:
            return PlainTextResponse(_NOT_ACCEPTED, _REFUSED)
        if wants_link:
            return json_response({"code": self.sessions.issue_link(user, token, self.now())}, 201)
        return _with_cookie(Response(status_code=204), self.sessions.open(user, token, self.now()))

    def _redeem(self, request: Request, code: str) -> Response:
        """Exchanges the code of a one-time link of the command line for a cookie. No page may open such a link."""
        if request.headers.get("sec-fetch-site", "none") != "none":
            return PlainTextResponse(_OTHER_SITE, 403)
        cookie = self.sessions.redeem(code, self.now())
        if cookie is None:
            return PlainTextResponse("This link was used already, or is too old: run `windlass ui` again.\n", _REFUSED)
        return _with_cookie(RedirectResponse("/", 303), cookie)

    def _log_out(self, request: Request, session: UserSession) -> Response:
        """Ends the session of a page that has its token."""
        is_own = secrets.compare_digest(request.headers.get(CSRF_HEADER, "").encode(), session.csrf.encode())
        if request.method != "POST" or not is_own:
            return PlainTextResponse("the request lacks the token of its page: reload the page\n", 403)
        self.sessions.close(session.key)
        answer = Response(status_code=204)
        answer.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="strict")
        return answer

    def _csrf(self, user: User) -> str:
        """The token of changes for a user whom a proxy names: the same for each of its requests."""
        return hmac.new(self._secret, repr(user).encode(), hashlib.sha256).hexdigest()


def _refer_to_login(request: Request) -> Response:
    """The answer to a request without a session: the sign-in page, unless a script has sent it."""
    path = request.url.path
    if path.startswith("/api/") or request.method not in ("GET", "HEAD"):
        return PlainTextResponse(_NOT_SIGNED_IN, _REFUSED)
    return RedirectResponse(f"{LOGIN}?to={quote(local_path(path))}", 303)


def _with_cookie(answer: Response, cookie: str) -> Response:
    age = LIFETIME_MS // 1000
    answer.set_cookie(COOKIE, cookie, max_age=age, path="/", secure=True, httponly=True, samesite="strict")
    return answer


async def _read_sign_in(request: Request) -> tuple[str, bool]:
    """The token in the body of a sign-in, "" if it has none; and whether the command line asks for a link."""
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict) or not isinstance(body.get("token"), str):
        return "", False
    return body["token"].strip(), body.get("link") is True
