"""Rights of users, by SubjectAccessReview: the same rules of RBAC as for objects."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.reviews import AccessRight, User, has_right
from windlass.jobs.kubernetes.query_api import GROUP, VERSION
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.operator.queries.expiring_cache import ExpiringCache

_LIFE_S = 10.0
"""Seconds for which a review is used again: a right that was taken away is refused after them."""
_MAX_REVIEWS = 10_000
_CONCURRENT = 8
"""Maximum number of reviews under way."""


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
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_CONCURRENT))

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
        """Whether the user has a right. Raises BackendError."""
        key = (user, access)
        if key not in self._reviews:
            async with self._turns:
                self._reviews[key] = await has_right(self.connection, user, access)
        return self._reviews[key]

    async def hidden(self, user: User, namespaces: Iterable[str]) -> set[str]:
        """The subset of namespaces whose jobs the user may not list. Raises BackendError."""
        asked = list(namespaces)
        if not asked or await self.allows(user, query_right("list", "jobs")):
            return set()
        allowed = await asyncio.gather(*(self.allows(user, query_right("list", "jobs", each)) for each in asked))
        return {name for name, may in zip(asked, allowed, strict=True) if not may}
