"""Changes of jobs by users: patches of the jobs' objects with the user's own token."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, replace

from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client.access import Access, Identity
from windlass.backends.kubernetes.client.api_errors import ApiError as RefusedError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.reviews import AccessRight, review_self
from windlass.jobs.kubernetes.job_patches import action_patch
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.operator.dashboard.user_sessions import UserSession
from windlass.server.operator.queries.authorization import Authorizer


@dataclass(frozen=True, slots=True)
class ObjectActions:
    """Cancels, suspends and resumes jobs of our kinds. Methods raise ApiError, BackendError."""

    backend: KubernetesBackend
    authorizer: Authorizer

    async def apply(self, session: UserSession, verb: str, job_id: str) -> None:
        """Patches the object of one job, if the user may."""
        gang = self.backend.jobs.get(job_id)
        if gang is None:
            message = f"{job_id} has no object that could be changed"
            raise ApiError(ErrorCode.WRONG_STATE, message, "change the objects that own its pods, with kubectl")
        job, user = gang.reference, session.user
        right = AccessRight("patch", job.resource.plural, job.namespace, job.name, job.resource.group)
        await self.authorizer.require(user, right, "edit")
        patch = action_patch(verb, job.resource.kind, user.name)
        access = await _as_user(self.backend.connection.access, session.token)
        async with Connection(access, limit=1) as connection:
            if (await review_self(connection)).user.name != user.name:
                message = f"the API server does not take the token of {user.name} from the operator"
                raise ApiError(ErrorCode.NOT_ALLOWED, message, f"use the command line: windlass {verb} {job_id}")
            try:
                await connection.patch(job.resource, job.namespace, job.name, patch)
            except RefusedError as error:  # of the user's own request
                raise ApiError(ErrorCode.WRONG_STATE, f"the API server refuses to change {job_id}: {error}") from None


async def _as_user(access: Access, token: str) -> Access:
    """Access to the same API server with a user's token. Raises AccessError."""
    own = await access.identify(False)
    identity = Identity(f"Bearer {token}", None if own.tls is None else _without_certificate(own.tls))

    async def identify(_renew: bool) -> Identity:  # noqa: FBT001 - its only argument
        return identity

    return replace(access, identify=identify)


def _without_certificate(tls: ssl.SSLContext) -> ssl.SSLContext:
    """A context that trusts the same authorities, without the operator's own client certificate."""
    made = ssl.create_default_context(cadata=b"".join(tls.get_ca_certs(binary_form=True)) or None)
    made.verify_flags, made.check_hostname = tls.verify_flags, tls.check_hostname
    made.verify_mode = tls.verify_mode
    return made
