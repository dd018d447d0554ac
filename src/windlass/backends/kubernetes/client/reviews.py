"""Reviews by the API server: the user of a token, the rights of a user, and the caller's own user and rights.

Each function raises ApiError or Unreachable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import orjson

from windlass.backends.kubernetes.client.connection import Connection

_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io/v1", "authorization.k8s.io/v1"
_MAX_TOKEN_CHARS = 16_384
"""Longer texts are no tokens, and are not sent."""
_ACCOUNT = "system:serviceaccount:"
"""Names of ServiceAccounts begin so; their namespace and their own name follow."""


@dataclass(frozen=True, slots=True)
class User:
    """A user as the API server knows it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def values_of(self, key: str) -> tuple[str, ...]:
        """Values of one key of the extra information; empty without the key."""
        return dict(self.extra).get(key, ())


@dataclass(frozen=True, slots=True)
class AccessRight:
    """A verb on a resource. An empty `namespace`: the whole cluster; an empty `name`: all objects."""

    verb: str
    resource: str = ""
    """With its subresource: `pods/status`."""
    namespace: str = ""
    name: str = ""
    group: str = ""
    version: str = ""
    path: str = ""
    """A path outside of the API, such as /metrics, instead of a resource."""

    @property
    def full_name(self) -> str:
        """The resource with its group: `jobs.batch/status`."""
        resource, slash, part = self.resource.partition("/")
        return f"{resource}.{self.group}{slash}{part}" if self.group else self.resource

    def attributes(self) -> dict[str, dict[str, str]]:
        """The right in the `spec` of a review."""
        if self.path:
            return {"nonResourceAttributes": {"path": self.path, "verb": self.verb}}
        resource, _, part = self.resource.partition("/")
        about = {"verb": self.verb, "group": self.group, "version": self.version, "resource": resource}
        about |= {"subresource": part, "namespace": self.namespace, "name": self.name}
        return {"resourceAttributes": {key: text for key, text in about.items() if text}}

    def __str__(self) -> str:
        if self.path:
            return f"{self.verb} {self.path}"
        where = f"in namespace {self.namespace}" if self.namespace else "in all namespaces"
        return f"{self.verb} {self.full_name} {where}"


@dataclass(frozen=True, slots=True)
class SelfReview:
    """The caller as the API server knows it, and the time of the review by its clock, in whole seconds."""

    user: User
    created: str


def account_user(namespace: str, account: str) -> User:
    """Returns the user that is a ServiceAccount, with the groups of each."""
    groups = "system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"
    return User(f"{_ACCOUNT}{namespace}:{account}", groups=groups)


def account_namespace(user: str) -> str:
    """Returns the namespace of a user that is a ServiceAccount; "" for another user."""
    return user.split(":")[2] if user.startswith(_ACCOUNT) else ""


def is_reviewable(token: object) -> TypeGuard[str]:
    """Tells whether a value can be a token at all: ASCII text, as a header of HTTP carries it (RFC 6750)."""
    return isinstance(token, str) and 0 < len(token) <= _MAX_TOKEN_CHARS and token.isascii()


async def review_token(
    connection: Connection, token: str, audiences: Sequence[str] = (), *, within: float | None = None
) -> User | None:
    """Returns the user of a token; None if the token is invalid, or was not issued for one of the audiences.

    An API server that ignores audiences names none, so that it proves nothing.
    """
    spec = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
    status = (await _review(connection, _AUTHENTICATION, "TokenReview", spec, within)).get("status") or {}
    is_for = not audiences or bool({*audiences}.intersection(status.get("audiences") or ()))
    return _user(status.get("user")) if status.get("authenticated") is True and is_for else None


async def has_right(connection: Connection, user: User, right: AccessRight, *, within: float | None = None) -> bool:
    """Tells whether a user has a right."""
    about = {"user": user.name, "uid": user.uid, "groups": list(user.groups)}
    spec = {**about, "extra": {key: list(values) for key, values in user.extra}, **right.attributes()}
    return _is_allowed(await _review(connection, _AUTHORIZATION, "SubjectAccessReview", spec, within))


async def has_own_right(connection: Connection, right: AccessRight) -> bool:
    """Tells whether the caller has a right; each authenticated user may ask that."""
    return _is_allowed(await _review(connection, _AUTHORIZATION, "SelfSubjectAccessReview", right.attributes()))


async def review_self(connection: Connection) -> SelfReview:
    """Returns the caller's own user."""
    reply = await _review(connection, _AUTHENTICATION, "SelfSubjectReview")
    user = _user((reply.get("status") or {}).get("userInfo"))
    return SelfReview(user, (reply.get("metadata") or {}).get("creationTimestamp") or "")


async def _review(
    connection: Connection,
    api_version: str,
    kind: str,
    spec: Mapping[str, Any] | None = None,
    within: float | None = None,
) -> dict[str, Any]:
    """Sends a review. Returns the reply, with a `status`."""
    body = {"apiVersion": api_version, "kind": kind, **({"spec": spec} if spec else {})}
    reply = await connection.request("POST", f"/apis/{api_version}/{kind.lower()}s", body=body, within=within)
    return orjson.loads(reply)  # type: ignore[no-any-return]


def _is_allowed(reply: Mapping[str, Any]) -> bool:
    return (reply.get("status") or {}).get("allowed") is True


def _user(info: Mapping[str, Any] | None) -> User:
    info = info or {}
    extra = tuple((key, tuple(values or ())) for key, values in sorted((info.get("extra") or {}).items()))
    return User(str(info.get("username", "")), str(info.get("uid", "")), tuple(info.get("groups") or ()), extra)
