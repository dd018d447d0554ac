"""Rights of users, by SubjectAccessReview: the same rules of RBAC as for objects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from windlass.backends.kubernetes.client.connection import Connection
from windlass.jobs.kubernetes.query_api import GROUP, VERSION
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.operator.queries.authentication import User
from windlass.server.operator.queries.expiring_cache import ExpiringCache

_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_LIFE_S = 10.0
"""Seconds for which a review is used again: a right that was taken away is refused after them."""
_MAX_REVIEWS = 10_000
_CONCURRENT = 8
"""Maximum number of reviews under way."""


@dataclass(frozen=True, slots=True)
class AccessRight:
    """A verb on a resource, for which a user needs the right. An empty `namespace`: the whole cluster."""

    verb: str
    resource: str
    """With its subresource: `jobs/log`."""
    namespace: str = ""
    name: str = ""
    path: str = ""
    """A path outside of the API, such as /metrics, instead of a resource."""

    def attributes(self) -> dict[str, dict[str, str]]:
        """The access in a SubjectAccessReview."""
        if self.path:
            return {"nonResourceAttributes": {"path": self.path, "verb": self.verb}}
        resource, _, part = self.resource.partition("/")
        about = {"group": GROUP, "version": VERSION, "verb": self.verb, "resource": resource, "subresource": part}
        return {"resourceAttributes": {**about, "namespace": self.namespace, "name": self.name}}

    def __str__(self) -> str:
        if self.path:
            return f"{self.verb} {self.path}"
        where = f"in namespace {self.namespace}" if self.namespace else "in all namespaces"
        return f"{self.verb} {self.resource}.{GROUP} {where}"


@dataclass(slots=True)
class Authorizer:
    """Rights of users in one cluster."""

    connection: Connection
    _reviews: ExpiringCache[tuple[User, AccessRight], bool] = field(
        default_factory=lambda: ExpiringCache[tuple[User, AccessRight], bool](_MAX_REVIEWS, _LIFE_S)
    )
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_CONCURRENT))

    async def require(self, user: User, access: AccessRight) -> None:
        """Raises ApiError NOT_ALLOWED if the user lacks a right, and BackendError."""
        if not await self.allows(user, access):
            fix = (
                f"ask for a RoleBinding to the ClusterRole view in namespace {access.namespace}"
                if access.namespace
                else "ask for a ClusterRoleBinding to the ClusterRole view"
            )
            raise ApiError(ErrorCode.NOT_ALLOWED, f"user {user.name} may not {access}", fix)

    async def allows(self, user: User, access: AccessRight) -> bool:
        """Whether the user has a right. Raises BackendError."""
        key = (user, access)
        if key not in self._reviews:
            async with self._turns:
                self._reviews[key] = await self._review(user, access)
        return self._reviews[key]

    async def hidden(self, user: User, namespaces: Iterable[str]) -> set[str]:
        """The subset of namespaces whose jobs the user may not list. Raises BackendError."""
        asked = list(namespaces)
        if not asked or await self.allows(user, AccessRight("list", "jobs")):
            return set()
        allowed = await asyncio.gather(*(self.allows(user, AccessRight("list", "jobs", each)) for each in asked))
        return {name for name, may in zip(asked, allowed, strict=True) if not may}

    async def _review(self, user: User, access: AccessRight) -> bool:
        about = {"user": user.name, "uid": user.uid, "groups": list(user.groups)}
        spec = {**about, "extra": {key: list(values) for key, values in user.extra}, **access.attributes()}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        reply = json.loads(await self.connection.request("POST", _REVIEWS, body=body))
        return (reply.get("status") or {}).get("allowed") is True
