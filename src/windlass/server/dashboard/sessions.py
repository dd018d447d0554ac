"""Sessions of browsers: a one-time link of the command line becomes a cookie. Pure but for the random tokens."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field

LINK_LIFETIME_MS = 120_000
SESSION_LIFETIME_MS = 12 * 3_600_000
MAX_LINKS, MAX_SESSIONS = 16, 64
"""Beyond these the oldest link or session ends."""


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that opened a link. `csrf`: the token that its requests for changes carry."""

    csrf: str
    may_act: bool
    expires_at: int


@dataclass(slots=True)
class Sessions:
    """Links that were not opened yet, and sessions, by the hash of their token: a memory dump reveals no token."""

    _links: dict[str, tuple[int, bool]] = field(default_factory=dict)
    _sessions: dict[str, Session] = field(default_factory=dict)

    def issue_link(self, now: int, *, may_act: bool) -> str:
        """The token of a new one-time link. `may_act`: its session may change jobs."""
        token = secrets.token_urlsafe(32)
        self._links[_hash(token)] = (now + LINK_LIFETIME_MS, may_act)
        _drop_oldest(self._links, MAX_LINKS)
        return token

    def redeem(self, token: str, now: int) -> str | None:
        """The cookie of a new session, or None for a link that is unknown, used or too old."""
        expires_at, may_act = self._links.pop(_hash(token), (0, False))
        if now >= expires_at:
            return None
        cookie = secrets.token_urlsafe(32)
        self._sessions[_hash(cookie)] = Session(secrets.token_urlsafe(32), may_act, now + SESSION_LIFETIME_MS)
        _drop_oldest(self._sessions, MAX_SESSIONS)
        return cookie

    def find(self, cookie: str, now: int) -> Session | None:
        """The session of a cookie, while it lasts."""
        session = self._sessions.get(_hash(cookie))
        if session is None or now < session.expires_at:
            return session
        del self._sessions[_hash(cookie)]
        return None


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _drop_oldest(table: dict[str, object] | dict[str, Session] | dict[str, tuple[int, bool]], most: int) -> None:
    while len(table) > most:
        del table[next(iter(table))]
