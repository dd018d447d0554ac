"""Check of the operator's permissions by access reviews of the API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.deploy.install.findings import Finding, failure, ok
from windlass.deploy.permissions import JOBS, MPIJOB_V1, QUERIES, SCHEDULING, Permission, own_permissions
from windlass.deploy.roles import OPERATOR

_ABOUT = "permissions"
_CONCURRENT_REVIEWS = 32
_GROUP = "/apis/authorization.k8s.io/v1"


async def check_permissions(connection: Connection, namespace: str) -> list[Finding]:
    """A finding for each missing permission, of the operator's account or, if reviews are forbidden, of the caller."""
    account = f"system:serviceaccount:{namespace}:{OPERATOR}"
    required = [(each, "") for each in (*SCHEDULING, *JOBS, *QUERIES)]
    required += [(each, namespace) for each in own_permissions(OPERATOR)]
    subject = f"the account {namespace}/{OPERATOR}"
    try:
        missing = await _missing(connection, required, account)
    except ApiError as error:
        if not error.is_forbidden:
            raise
        subject, account = "the current user", ""
        missing = await _missing(connection, required, account)
    if not missing:
        lacking = await _missing(connection, [(each, "") for each in MPIJOB_V1], account)
        without = "; MPIJobs v1 wait: install with --mpijob-v1 to run them" if lacking else ""
        return [ok(_ABOUT, f"{subject} has all {len(required)}{without}")]
    return [failure(_ABOUT, f"{subject} {message}", "windlass operator install") for message in missing]


async def _missing(connection: Connection, required: Sequence[tuple[Permission, str]], account: str) -> list[str]:
    """Missing permissions as texts: "may not patch pods/status, to write why a pod is pending"."""
    turns = asyncio.Semaphore(_CONCURRENT_REVIEWS)

    async def one(permission: Permission, namespace: str, resource: str, verb: str) -> str:
        async with turns:
            allowed = await _allowed(connection, _attributes(permission, namespace, resource, verb), account)
        return "" if allowed else f"may not {verb} {_full(permission, resource)}, to {permission.purpose}"

    answers = await asyncio.gather(
        *(
            one(permission, namespace, resource, verb)
            for permission, namespace in required
            for resource in permission.resources
            for verb in permission.verbs
        )
    )
    return [answer for answer in answers if answer]


async def _allowed(connection: Connection, attributes: dict[str, str], account: str) -> bool:
    kind = "SubjectAccessReview" if account else "SelfSubjectAccessReview"
    user = {"user": account, "groups": ["system:serviceaccounts", "system:authenticated"]} if account else {}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": kind,
        "spec": {"resourceAttributes": attributes, **user},
    }
    reply: dict[str, Any] = json.loads(await connection.request("POST", f"{_GROUP}/{kind.lower()}s", body=body))
    return bool(reply["status"]["allowed"])


def _attributes(permission: Permission, namespace: str, resource: str, verb: str) -> dict[str, str]:
    plain, _, sub = resource.partition("/")
    named = {"name": permission.names[0]} if permission.names else {}
    inside = {"namespace": namespace} if namespace else {}
    return {"group": permission.group, "resource": plain, "subresource": sub, "verb": verb, **named, **inside}


def _full(permission: Permission, resource: str) -> str:
    plain, slash, sub = resource.partition("/")
    return f"{plain}{f'.{permission.group}' if permission.group else ''}{slash}{sub}"
