"""The user of a request: named by the API server's front proxy, or by a bearer token that TokenReview accepts.

The front proxy proves itself by a client certificate of the authority in the ConfigMap
`kube-system/extension-apiserver-authentication`. Headers that name a user count on its connections only.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote

from starlette.datastructures import Headers

from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import CONFIG_MAPS
from windlass.backends.kubernetes.client.reviews import User, is_reviewable, review_token
from windlass.backends.port import BackendError
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.operator.bounded_http import CLIENT_NAME
from windlass.server.operator.queries.expiring_cache import ExpiringCache

_CONFIG = ("kube-system", "extension-apiserver-authentication")
_TOKEN_LIFE_S = 10.0
"""Seconds for which a review of a token is used again: a revoked token is refused after them."""
_MAX_TOKENS = 1_000
"""Number of accepted tokens that are kept, and of refused ones: these cannot displace those."""
_REVIEW_S = 5.0
"""Seconds for one review."""
_REFRESH_S = 60.0
"""Seconds between two readings of the ConfigMap, whose authority may be replaced."""


class _RefusedTokenError(Exception):
    """The API server does not accept a token."""


@dataclass(slots=True)
class FrontProxy:
    """Certificate names of the API server's front proxy, and the headers in which it names the user."""

    names: Sequence[str] = ()
    """Accepted common names; empty: all that the authority has signed."""
    user_headers: Sequence[str] = ("X-Remote-User",)
    uid_headers: Sequence[str] = ("X-Remote-Uid",)
    group_headers: Sequence[str] = ("X-Remote-Group",)
    extra_prefixes: Sequence[str] = ("X-Remote-Extra-",)

    def user(self, headers: Headers) -> User | None:
        """The user that the headers name; None if they name none."""
        name = next((headers[each] for each in self.user_headers if headers.get(each)), "")
        if not name:
            return None
        uid = next((headers[each] for each in self.uid_headers if headers.get(each)), "")
        groups = [group for each in self.group_headers for group in headers.getlist(each)]
        return User(name, uid, tuple(groups), self._extra(headers))

    def _extra(self, headers: Headers) -> tuple[tuple[str, tuple[str, ...]], ...]:
        found: dict[str, list[str]] = {}
        for header, value in headers.items():
            for prefix in self.extra_prefixes:
                if header.startswith(prefix.lower()):
                    found.setdefault(unquote(header[len(prefix) :]), []).append(value)
        return tuple((key, tuple(values)) for key, values in sorted(found.items()))


@dataclass(slots=True)
class Authenticator:
    """Identification of users by one API server."""

    connection: Connection
    proxy: FrontProxy = field(default_factory=FrontProxy)
    _users: ExpiringCache[str, User] = field(default_factory=lambda: ExpiringCache(_MAX_TOKENS, _TOKEN_LIFE_S))
    """By hash of a token that was accepted."""
    _refused: ExpiringCache[str, None] = field(default_factory=lambda: ExpiringCache(_MAX_TOKENS, _TOKEN_LIFE_S))
    """Hashes of tokens that were not accepted."""

    async def keep_proxy_current(self, tls: ssl.SSLContext, say: Callable[[str], None]) -> None:
        """Reads the front proxy's authority regularly, until cancelled."""
        while True:
            await asyncio.sleep(_REFRESH_S)
            await self.read_proxy(tls, say)

    async def read_proxy(self, tls: ssl.SSLContext, say: Callable[[str], None]) -> None:
        """Makes later connections accept client certificates of the front proxy; reports why that fails."""
        try:
            await self._read_proxy(tls)
        except (BackendError, ValueError, TypeError, ssl.SSLError) as error:
            say(f"cannot read the certificate authority of the API server's front proxy: {error}")

    async def _read_proxy(self, tls: ssl.SSLContext) -> None:
        data: Mapping[str, str] = (await self.connection.get(CONFIG_MAPS, *_CONFIG)).get("data") or {}
        authority = data.get("requestheader-client-ca-file", "")
        if not authority:
            raise ValueError("the API server has no front proxy: it lacks --requestheader-client-ca-file")
        tls.load_verify_locations(cadata=authority)
        tls.verify_mode = ssl.CERT_OPTIONAL
        self.proxy = FrontProxy(
            _strings(data, "requestheader-allowed-names", ()),
            _strings(data, "requestheader-username-headers", FrontProxy().user_headers),
            _strings(data, "requestheader-uid-headers", FrontProxy().uid_headers),
            _strings(data, "requestheader-group-headers", FrontProxy().group_headers),
            _strings(data, "requestheader-extra-headers-prefix", FrontProxy().extra_prefixes),
        )

    async def identify(self, scope: Mapping[str, Any]) -> User:
        """The user of a request. Raises ApiError NOT_AUTHENTICATED, BackendError."""
        headers, proxy = Headers(raw=list(scope["headers"])), scope.get(CLIENT_NAME)
        if proxy is not None and (not self.proxy.names or proxy in self.proxy.names):
            user = self.proxy.user(headers)
        else:
            kind, _, token = headers.get("authorization", "").partition(" ")
            user = await self.review(token.strip()) if kind.lower() == "bearer" else None
        if user is None:
            raise ApiError(
                ErrorCode.NOT_AUTHENTICATED,
                "this port answers the API server, and clients with a bearer token of this cluster",
                "use the windlass command line, or kubectl get --raw",
            )
        return user

    async def review(self, token: str) -> User | None:
        """The user of a token; None if the API server does not accept it. Raises BackendError.

        Concurrent questions share a review.
        """
        if not is_reviewable(token):
            return None
        key = hashlib.sha256(token.encode()).hexdigest()
        if key in self._refused:
            return None
        try:
            return await self._users.fetch(key, partial(self._review, token))
        except _RefusedTokenError:
            self._refused[key] = None
            return None

    async def _review(self, token: str) -> User:
        user = await review_token(self.connection, token, within=_REVIEW_S)
        if user is None:
            raise _RefusedTokenError
        return user


def _strings(data: Mapping[str, str], key: str, otherwise: Sequence[str]) -> Sequence[str]:
    """A JSON list of the ConfigMap."""
    found = json.loads(data.get(key) or "[]")
    return tuple(str(each) for each in found) or otherwise
