"""Check of the operator's permissions by access reviews of the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.reviews import AccessRight, User, account_user, has_own_right, has_right
from windlass.deploy.install.findings import Finding, failure, ok
from windlass.deploy.permissions import JOBS, MPIJOB_V1, QUERIES, SCHEDULING, Permission, own_permissions
from windlass.jobs.kubernetes.operator_names import OPERATOR

_ABOUT = "permissions"
_CONCURRENT_REVIEWS = 32


async def check_permissions(connection: Connection, namespace: str) -> list[Finding]:
    """A finding for each missing permission, of the operator's account or, if reviews are forbidden, of the caller."""
    account: User | None = account_user(namespace, OPERATOR)
    required = [(each, "") for each in (*SCHEDULING, *JOBS, *QUERIES)]
    required += [(each, namespace) for each in own_permissions(OPERATOR)]
    subject = f"the account {namespace}/{OPERATOR}"
    try:
        missing = await _missing(connection, required, account)
    except ApiError as error:
        if not error.is_forbidden:
            raise
        subject, account = "the current user", None
        missing = await _missing(connection, required, account)
    if not missing:
        lacking = await _missing(connection, [(each, "") for each in MPIJOB_V1], account)
        without = "; MPIJobs v1 wait: install with --mpijob-v1 to run them" if lacking else ""
        return [ok(_ABOUT, f"{subject} has all {len(required)}{without}")]
    return [failure(_ABOUT, f"{subject} {message}", "windlass operator install") for message in missing]


async def _missing(
    connection: Connection, required: Sequence[tuple[Permission, str]], account: User | None
) -> list[str]:
    """Missing permissions as texts: "may not patch pods/status, to write why a pod is pending".

    `account`: None for the caller.
    """
    turns = asyncio.Semaphore(_CONCURRENT_REVIEWS)

    async def one(permission: Permission, right: AccessRight) -> str:
        async with turns:
            asked = has_right(connection, account, right) if account else has_own_right(connection, right)
            allowed = await asked
        return "" if allowed else f"may not {right.verb} {right.full_name}, to {permission.purpose}"

    answers = await asyncio.gather(
        *(
            one(permission, _right(permission, namespace, resource, verb))
            for permission, namespace in required
            for resource in permission.resources
            for verb in permission.verbs
        )
    )
    return [answer for answer in answers if answer]


def _right(permission: Permission, namespace: str, resource: str, verb: str) -> AccessRight:
    name = permission.names[0] if permission.names else ""
    return AccessRight(verb, resource, namespace, name, permission.group)
