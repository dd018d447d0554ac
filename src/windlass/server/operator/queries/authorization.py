"""Rights of users, by SubjectAccessReview: the same rules of RBAC as for objects."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.reviews import AccessRight, User, has_right
from windlass.backends.port import BackendError
from windlass.jobs.kubernetes.query_api import GROUP, VERSION
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.operator.queries.expiring_cache import ExpiringCache
from windlass.server.operator.queries.fair_turns import FairTurns, limit_key

_LIFE_S = 10.0
"""Seconds for which a review is used again: a right that was taken away is refused after them."""
_MAX_REVIEWS = 10_000
_CONCURRENT, _CONCURRENT_EACH = 8, 4
"""Maximum number of reviews under way: for all users, and for one."""
_REVIEW_S, _WAIT_S = 5.0, 30.0
"""Seconds for one review, and for one with the wait for its turn: a user of many namespaces has many."""


def query_right(verb: str, resource: str, namespace: str = "", name: str = "") -> AccessRight:
    """The right to a query. `resource`: with its part: `jobs/log`; an empty `namespace`: the whole cluster."""
    return AccessRight(verb, resource, namespace, name, GROUP, VERSION)


@dataclass(slots=True)
class Authorizer:
    """Rights of users in one cluster."""

    connection: Connection
    _reviews: ExpiringCache[tuple[User, AccessRight], bool] = field(
        default_factory=lambda: ExpiringCache[tuple[User, AccessRight], bool](_MAX_REVIEWS, _LIFE_S)
    )
    _turns: FairTurns = field(default_factory=partial(FairTurns, _CONCURRENT, _CONCURRENT_EACH))

    async def require(self, user: User, access: AccessRight, role: str = "view") -> None:
        """Raises ApiError NOT_ALLOWED if the user lacks a right, and BackendError. `role`: ClusterRole that has it."""
        if not await self.allows(user, access):
            fix = (
                f"ask for a RoleBinding to the ClusterRole {role} in namespace {access.namespace}"
                if access.namespace
                else f"ask for a ClusterRoleBinding to the ClusterRole {role}"
            )
            raise ApiError(ErrorCode.NOT_ALLOWED, f"user {user.name} may not {access}", fix)

    async def allows(self, user: User, access: AccessRight) -> bool:
        """Whether the user has a right. Concurrent questions share a review. Raises BackendError."""
        return await self._reviews.fetch((user, access), partial(self._review, user, access))

    async def _review(self, user: User, access: AccessRight) -> bool:
        try:
            async with asyncio.timeout(_WAIT_S), self._turns.take(limit_key(user)):
                return await has_right(self.connection, user, access, within=_REVIEW_S)
        except TimeoutError:
            raise BackendError(f"the API server has not reviewed a right within {_WAIT_S:g} s") from None

    async def hidden(self, user: User, namespaces: Iterable[str]) -> set[str]:
        """The subset of namespaces whose jobs the user may not list. Raises BackendError."""
        asked = list(namespaces)
        if not asked or await self.allows(user, query_right("list", "jobs")):
            return set()
        allowed = await asyncio.gather(*(self.allows(user, query_right("list", "jobs", each)) for each in asked))
        return {name for name, may in zip(asked, allowed, strict=True) if not may}
