"""Limit of the requests of one user that are answered at once: a server does not end those whose client has gone."""

from __future__ import annotations

from collections import Counter

from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.server.app import json_response
from windlass.server.dashboard.guard import SESSION
from windlass.server.errors import HTTP_STATUS, ApiError, ErrorCode
from windlass.server.operator.dashboard.user_sessions import UserSession
from windlass.server.operator.queries.fair_turns import limit_key

_REQUESTS, _STREAMS = 32, 64
"""Maximum number of requests of one user at once, and of its event streams, which last."""
STREAM = "/api/stream"
_TOO_MANY = ApiError(ErrorCode.BUSY, "too many requests of this user are under way", "wait until they are answered")


class RequestLimit:
    """ASGI middleware behind the guard. A request beyond the limit waits for nothing and is answered with 429."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._requests: Counter[tuple[str, bool]] = Counter()
        """By key of the user's limits, and whether they are streams."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers the request, or refuses it."""
        session, is_stream = scope[SESSION], scope["path"] == STREAM
        assert isinstance(session, UserSession)  # noqa: S101 - the door's
        key = (limit_key(session.user), is_stream)
        if self._requests[key] >= (_STREAMS if is_stream else _REQUESTS):
            await json_response(_TOO_MANY.as_json(), HTTP_STATUS[_TOO_MANY.code])(scope, receive, send)
            return
        self._requests[key] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._requests[key] -= 1
            if not self._requests[key]:
                del self._requests[key]
