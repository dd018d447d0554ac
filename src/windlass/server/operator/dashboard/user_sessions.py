"""Sessions of browsers whose users have signed in with a token. Pure but for random values."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from windlass.backends.kubernetes.client.reviews import User
from windlass.server.dashboard.sessions import Session
from windlass.server.operator.queries.fair_turns import limit_key

LIFETIME_MS = 8 * 3_600_000
LINK_LIFETIME_MS = 120_000
MAX_SESSIONS, MAX_PER_NAMESPACE, MAX_PER_USER = 1_000, 64, 16
"""Maximum number of all sessions, of the ServiceAccounts of one namespace, and of one user.

Beyond a limit the oldest session ends: of the user, of the namespace, or of the user or namespace with most sessions.
"""
_NONCE_BYTES = 12


@dataclass(frozen=True, slots=True)
class UserSession(Session):
    """A session of a user of the cluster."""

    user: User = field(default_factory=lambda: User(""))
    token: str = field(default="", repr=False)
    """The user's own token; empty if a trusted proxy has named the user."""
    key: str = ""
    """Key in `UserSessions`; empty if a trusted proxy has named the user."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A session without its token, which only the cookie can decrypt: a memory dump reveals no token."""

    csrf: str
    expires_at: int
    user: User
    limit_key: str
    sealed_token: bytes
    is_link: bool = False
    """Whether its cookie is the code of a one-time link, which is no cookie yet."""


@dataclass(slots=True)
class UserSessions:
    """Sessions by the hash of their cookie, the oldest first."""

    _kept: OrderedDict[str, _Kept] = field(default_factory=OrderedDict)

    def open(self, user: User, token: str, now: int) -> str:
        """The cookie of a new session."""
        return self._add(user, token, now, LIFETIME_MS)

    def issue_link(self, user: User, token: str, now: int) -> str:
        """The code of a one-time link, which becomes a session when it is opened."""
        return self._add(user, token, now, LINK_LIFETIME_MS, is_link=True)

    def find_link(self, code: str, now: int) -> User | None:
        """The user who has made a link; None for a link that is unknown, used or too old."""
        found = self._read(code, now, may_act=False, is_link=True)
        return None if found is None else found.user

    def redeem(self, code: str, now: int) -> str | None:
        """The cookie of a new session; None for a link that is unknown, used or too old."""
        found = self._read(code, now, may_act=False, is_link=True)
        if found is None:
            return None
        self.close(found.key)
        return self.open(found.user, found.token, now)

    def find(self, cookie: str, now: int, *, may_act: bool) -> UserSession | None:
        """The session of a cookie, while it lasts. `may_act`: whether sessions with a token may change jobs."""
        return self._read(cookie, now, may_act=may_act, is_link=False)

    def _add(self, user: User, token: str, now: int, lifetime: int, *, is_link: bool = False) -> str:
        secret = secrets.token_urlsafe(32)
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + AESGCM(_cipher_key(secret)).encrypt(nonce, token.encode(), None)
        self._make_room(user, now)
        self._kept[_key(secret)] = _Kept(
            secrets.token_urlsafe(32), now + lifetime, user, limit_key(user), sealed, is_link
        )
        return secret

    def _make_room(self, user: User, now: int) -> None:
        """Ends sessions until one more of a user is within the limits."""
        # 1. sessions whose time is over
        for key in [key for key, each in self._kept.items() if now >= each.expires_at]:
            del self._kept[key]
        # 2. of the user, and of its namespace
        self._end_oldest(MAX_PER_USER, lambda each: each.user.name == user.name)
        own = limit_key(user)
        self._end_oldest(MAX_PER_NAMESPACE, lambda each: each.limit_key == own)
        # 3. of the user or namespace with most sessions
        if len(self._kept) >= MAX_SESSIONS:
            counts = Counter(each.limit_key for each in self._kept.values())
            largest, count = counts.most_common(1)[0]
            self._end_oldest(count, lambda each: each.limit_key == largest)

    def _end_oldest(self, limit: int, is_counted: Callable[[_Kept], bool]) -> None:
        """Ends the oldest of some sessions, so that fewer than `limit` are left."""
        counted = [key for key, each in self._kept.items() if is_counted(each)]
        for key in counted[: max(0, len(counted) - limit + 1)]:
            del self._kept[key]

    def _read(self, secret: str, now: int, *, may_act: bool, is_link: bool) -> UserSession | None:
        key = _key(secret)
        if not self.has(key, now) or self._kept[key].is_link != is_link:
            return None
        kept = self._kept[key]
        nonce, sealed = kept.sealed_token[:_NONCE_BYTES], kept.sealed_token[_NONCE_BYTES:]
        token = AESGCM(_cipher_key(secret)).decrypt(nonce, sealed, None).decode()
        return UserSession(kept.csrf, may_act, kept.expires_at, kept.user, token, key)

    def has(self, key: str, now: int) -> bool:
        """Whether a session lasts."""
        kept = self._kept.get(key)
        if kept is not None and now >= kept.expires_at:
            del self._kept[key]
            return False
        return kept is not None

    def close(self, key: str) -> None:
        """Ends a session."""
        self._kept.pop(key, None)


def _key(secret: str) -> str:
    return hashlib.sha256(f"session {secret}".encode()).hexdigest()


def _cipher_key(secret: str) -> bytes:
    return hashlib.sha256(f"token {secret}".encode()).digest()
