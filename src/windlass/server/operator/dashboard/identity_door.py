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
from windlass.backends.kubernetes.status.event_correlation import RateLimit
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
_SIGN_IN_S = 10.0
"""Seconds for a sign-in, with the wait for its turn."""
_PEER_BURST, _PEER_INTERVAL_MS = 20, 500
_ALL_BURST, _ALL_INTERVAL_MS = 100, 50
"""Sign-ins at once, and the time until one more is accepted: from one address, and from all."""
_NOT_SIGNED_IN = "You are not signed in, or the session has ended: reload the page.\n"
_NOT_ACCEPTED = (
    "The API server does not accept this token: it is wrong, too old, or was made for another audience. "
    "`kubectl create token ACCOUNT` prints one.\n"
)
_NO_ANSWER = "The API server does not answer: try again in a minute, and read the operator's log.\n"
_TOO_MANY = "Too many sign-ins: try again in a minute.\n"
_LINK_ENDED = "This link was used already, or is too old: run `windlass ui` again.\n"
_OTHER_SITE = "the request comes from another site\n"
_REFUSED = 401


@dataclass(frozen=True, slots=True)
class SignIn:
    """The body of a sign-in: a `token`, or the `code` of a one-time link; "" without it."""

    token: str = field(default="", repr=False)
    code: str = field(default="", repr=False)
    wants_link: bool = False
    """Whether the command line asks for a link."""
    is_confirmed: bool = False
    """Whether the user of the browser has seen the name of the link's user."""


@dataclass(frozen=True, slots=True)
class IdentityDoor:
    """The interface `guard.Door` for users of a cluster.

    `report` is told why a user cannot be identified; `origins`: addresses of the dashboard in browsers where a proxy
    changes the Host header; `allows_actions`: whether sessions with a token may change jobs.
    """

    authenticator: Authenticator
    proxy: TrustedProxy
    now: Callable[[], int]
    report: Callable[[str], None]
    origins: Collection[str] = ()
    allows_actions: bool = False
    sessions: UserSessions = field(default_factory=UserSessions)
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_REVIEWS))
    _peer_limit: RateLimit = field(default_factory=lambda: RateLimit(_PEER_BURST, _PEER_INTERVAL_MS))
    _limit: RateLimit = field(default_factory=lambda: RateLimit(_ALL_BURST, _ALL_INTERVAL_MS))

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
            return asset_response(path.removeprefix("/assets/"), request.headers) or PlainTextResponse("", 404)
        try:
            found: Session | Response | None
            found = await self._log_in(request) if path == LOGIN else await self._find_session(request)
        except ApiError as error:
            found = PlainTextResponse(f"{error}\n", HTTP_STATUS[error.code])
        except BackendError as error:
            self.report(f"the dashboard cannot identify a user: {error}")
            found = PlainTextResponse(_NO_ANSWER, 503)
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
        """The sign-in page, or the exchange of a token or of a one-time link for a cookie. Raises BackendError.

        A link opens the page too, which names the link's user and asks: the link of another user may be a trap.
        """
        if request.method != "POST":
            return page_response("signin.html", request.headers)
        is_json = request.headers.get("content-type", "").partition(";")[0].strip() == "application/json"
        if not is_json or is_of_other_site(request.headers, self.origin(request)):
            return PlainTextResponse(_OTHER_SITE, 403)
        if not self._has_room(request):
            return PlainTextResponse(_TOO_MANY, 429, {"retry-after": "60"})
        given = await _read_sign_in(request)
        return self._redeem(given) if given.code else await self._exchange(given)

    async def _exchange(self, given: SignIn) -> Response:
        """The cookie of a session for a token, or the code of a link. Raises BackendError."""
        try:
            async with asyncio.timeout(_SIGN_IN_S), self._turns:
                user = await self.authenticator.review(given.token)
        except TimeoutError:
            raise BackendError(f"no token was reviewed within {_SIGN_IN_S:g} s") from None
        if user is None:
            return PlainTextResponse(_NOT_ACCEPTED, _REFUSED)
        if given.wants_link:
            return json_response({"code": self.sessions.issue_link(user, given.token, self.now())}, 201)
        return _with_cookie(Response(status_code=204), self.sessions.open(user, given.token, self.now()))

    def _has_room(self, request: Request) -> bool:
        """Counts a sign-in. Returns whether it is within the limits of its address and of all addresses."""
        peer = request.client.host if request.client else ""
        return self._peer_limit.has_room(peer, self.now()) and self._limit.has_room("", self.now())

    def _redeem(self, given: SignIn) -> Response:
        """The user of a one-time link of the command line, or, once that is confirmed, a cookie for the link."""
        if not given.is_confirmed:
            user = self.sessions.find_link(given.code, self.now())
            return PlainTextResponse(_LINK_ENDED, _REFUSED) if user is None else json_response({"user": user.name})
        cookie = self.sessions.redeem(given.code, self.now())
        return (
            PlainTextResponse(_LINK_ENDED, _REFUSED)
            if cookie is None
            else _with_cookie(Response(status_code=204), cookie)
        )

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


async def _read_sign_in(request: Request) -> SignIn:
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        return SignIn()
    token, code = (text.strip() if isinstance(text := body.get(key), str) else "" for key in ("token", "code"))
    return SignIn(token, code, body.get("link") is True, body.get("confirmed") is True)
